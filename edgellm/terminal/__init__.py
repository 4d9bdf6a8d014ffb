"""Text for terminals.

sanitize   removes control characters and invisible characters
streams    stdout, stderr and stdin that never fail because of a character
"""
