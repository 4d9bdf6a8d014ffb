"""This machine and its operating system: cores, memory, folders, files, forks and optional packages."""
