"""Serves a small model as OpenAI does, until standard input ends: MODEL TEMPLATE.

Prints the address, a line. The template shows the model tools, which its own does not.
"""

import sys

import xllamacpp

parameters = xllamacpp.CommonParams()
parameters.model.path = sys.argv[1]
with open(sys.argv[2], encoding="utf-8") as template:
    parameters.chat_template = template.read()
parameters.use_jinja = True
parameters.n_ctx = 8192
parameters.n_parallel = 1
parameters.cpuparams.n_threads = 2
parameters.hostnames = ["127.0.0.1"]
parameters.port = 0
server = xllamacpp.Server(parameters)
print(server.listening_address, flush=True)
sys.stdin.read()
