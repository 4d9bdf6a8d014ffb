"""This machine and its operating system.

machine             cores and free memory; cgroup: the limits of a container
folders             the folders and files that edgellm keeps
atomic_file         files that are replaced in one step
text_input          text from files and stdin: UTF-8, limited in size
http                what requests over HTTP have in common: clients, connections that can be shut down
interrupts          Ctrl-C at moments at which no lock can be left in a wrong state
os_errors           explains errors of the operating system in one line
fork                detects that the process was forked
shadowing           detects packages of other programs with the names of ours
optional_packages   how to install an optional dependency
"""
