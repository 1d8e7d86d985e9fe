"""An MCP server over stdio that misbehaves on demand: a call names what it does.

    child.py [WORD ...]     words: dies, eager, marks, modern, nameless, refuses, silent, stubborn
"""
import json
import os
import signal
import subprocess
import sys
import time

WORDS = sys.argv[1:]
heard = []  # each message that came
lines = []  # and as it came
held = []  # ids of calls that wait for another one
asked = {}  # calls that wait for the client's response, by the id of the question


def write(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def answer(id, value):
    write({"id": id, "result": {"content": [], "value": value}})


def call(id, name, arguments, meta):
    match name:
        case "ask":
            question = arguments.get("id", f"q{id}")
            asked[question] = id
            write({"id": question, "method": arguments.get("method", "elicitation/create"), "params": {"message": "?"}})
        case "ask much":
            answer(id, "asked")
            for n in range(arguments["count"]):
                params = {"message": "x" * arguments["bytes"]}
                write({"id": f"much{id}-{n}", "method": "elicitation/create", "params": params})
        case "batch":
            print(json.dumps([{"jsonrpc": "2.0", "id": id, "result": {"value": "one of several"}}]), flush=True)
        case "broken":
            write({"id": id})
        case "close input":
            os.close(0)  # before the answer, or the next line could still be written, and never read
            answer(id, "closed")
            time.sleep(600)
        case "exit":
            sys.exit(arguments.get("status", 3))
        case "error":
            write({"id": id, "error": {"code": -32002, "message": "no such thing", "data": {"x": 1}}})
        case "forget":
            for question in asked:
                write({"method": "notifications/cancelled", "params": {"requestId": question}})
            answer(id, "forgotten")
        case "hang":
            pass
        case "heard":
            answer(id, heard)
        case "hold":
            held.append(id)
        case "last words":
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": id, "result": {"value": "last words"}}))
            sys.stdout.flush()
            sys.exit(0)
        case "leave":
            answer(id, subprocess.Popen(["sh", "-c", "trap '' TERM; exec sleep 600"]).pid)
        case "lines":
            answer(id, lines)
        case "log":
            for _ in range(arguments.get("more", 0)):
                write({"method": "notifications/message", "params": {"level": "info", "data": "x" * 10_000}})
            write({"method": "notifications/message", "params": {"level": "info", "data": arguments}})
            answer(id, "logged")
        case "long":
            print("x" * arguments["bytes"], flush=True)
        case "pid":
            answer(id, os.getpid())
        case "progress":
            for step in range(1, 4):
                write({"method": "notifications/progress", "params": {**meta, "progress": step, "total": 3}})
            answer(id, meta)
        case "release":
            answer(id, "released")
            for one in reversed(held):
                answer(one, {"held": one})
            held.clear()
        case "rubbish":
            sys.stdout.buffer.write(b"Starting up...\n\n[]\n{\"x\":1}\n7\nnull\n{\"jsonrpc\":\n\xff\xfe\n")
            sys.stdout.buffer.write(b'{"jsonrpc":"2.0","id":"a","result":{}}\n{"jsonrpc":"2.0","id":999,"result":{}}\n')
            sys.stdout.buffer.flush()
            answer(id, "not rubbish")
        case "say":
            for line in arguments["lines"]:
                line = line.replace("ID", str(id)).replace("TOKEN", str(meta.get("progressToken")))
                # In Latin-1 a character of two bytes is one that is not UTF-8.
                line = line.encode("latin-1" if "latin-1" in line else "utf-8", "surrogatepass")
                sys.stdout.buffer.write(line + b"\n")
            sys.stdout.buffer.flush()
        case "spell":
            answer(str(id), "spelled")
        case "stop reading":
            time.sleep(600)
        case "twice":
            answer(id, "once")
            answer(id, "twice")
        case _:
            write({"id": id, "error": {"code": -32602, "message": f"no tool {name}"}})


def main():
    if "dies" in WORDS:
        sys.exit("a child that dies")
    if "stubborn" in WORDS:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while line := sys.stdin.readline():
        message = json.loads(line)
        heard.append(message)
        lines.append(line)
        params = message.get("params", {})
        match message:
            case {"method": "initialize", "id": id}:
                if "silent" in WORDS:
                    continue
                if "refuses" in WORDS:
                    write({"id": id, "error": {"code": -7, "message": "not today"}})
                    continue
                if "nameless" in WORDS:
                    write({"id": None, "error": {"code": -7, "message": "not you"}})
                    continue
                if "marks" in WORDS:
                    sys.stdout.write("\ufeff")  # as .NET begins its output
                if "eager" in WORDS:
                    write({"id": "early", "method": "roots/list"})
                write({"id": id, "result": {
                    "protocolVersion": "2026-07-28" if "modern" in WORDS else params["protocolVersion"],
                    "capabilities": {
                        "tools": {"listChanged": True},
                        "resources": {"subscribe": True, "listChanged": True},
                        "logging": {},
                    },
                    "serverInfo": {"name": "child", "version": "1"},
                    "instructions": "none",
                }})
            case {"method": "notifications/initialized"}:
                write({"id": "p", "method": "ping"})
            case {"method": "tools/call", "id": id}:
                call(id, params["name"], params.get("arguments", {}), params.get("_meta", {}))
            case {"method": "tools/list", "id": id}:
                write({"id": id, "result": {"tools": []}})
            case {"method": method, "id": id}:
                write({"id": id, "error": {"code": -32601, "message": f"no method {method}"}})
            case {"id": id} if id in asked:
                answer(asked.pop(id), message)
    while "stubborn" in WORDS:
        time.sleep(600)


main()
