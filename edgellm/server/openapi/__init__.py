"""The description of the server's API. (https://spec.openapis.org/oas/v3.1.0)

recording     the schema of a body, as its reader checks it
bodies        bodies to read
answers       the schemas of answers and errors
description   all routes together: /openapi.json
"""
