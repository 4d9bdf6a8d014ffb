"""Tools of MCP servers, which run as processes of this user. (https://modelcontextprotocol.io)

servers      all servers of a file: opened, their tools, closed
config       the file of servers
tools        tools of servers as ours: names, definitions, calls
loop_thread  the thread whose event loop talks to all servers
connection   one server: session, list of tools, calls; from here on the package mcp is imported
transport    its process and pipes
content      results as text
"""

from edgellm.mcp.servers import Servers, open_servers

__all__ = ["Servers", "open_servers"]
