"""From a text to scores of its tokens: windows of it, logits, softmax."""
