"""Guides: what may come next in a reply that must conform to a JSON schema, a regex, a grammar or a list of choices.

guide           the protocol of guides, and of factories that make one for each reply
"""
