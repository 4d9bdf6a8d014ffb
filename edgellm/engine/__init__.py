"""Floor 3: the engine. A description becomes a program, a batch of rows goes in, logits come out."""
