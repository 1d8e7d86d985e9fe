"""What a Python client sees of the example `everything`, whichever SDK and era it speaks."""
import json
import sys
import time
import traceback
import urllib.parse
import urllib.request

import anyio

VERSIONS = {"legacy": "2025-11-25", "modern": "2026-07-28"}
LONG = 20_000  # ms, longer than any wait here


def check(name, httpx, connect):
    """`connect(url, era, http_client, elicit)` is an async context manager of an object with `version`, `failure` (what
    an answered error is raised as), `tools()`, `call(name, arguments, on_progress)`, `is_deaf_while_asking` (it reads
    nothing then), and, where the SDK sends no word when a call is cancelled, `cancel(request_id)`. What the SDK is to
    ask its user goes to `await elicit(params)`, which gives an action and the content."""
    url, era = sys.argv[1:]
    try:
        anyio.run(Checks(url, era).run, httpx, connect)
    except BaseException as error:
        # A task group wraps what went wrong in groups: the first leaf is the news.
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        traceback.print_exception(error)
        sys.exit(1)
    print(f"ok {name} {era}")


class Checks:
    def __init__(self, url, era):
        self.url, self.era = url, era
        self.posts = []  # what the SDK posted, and what became of it
        self.cancels = 0

    async def run(self, httpx, connect):
        transport = recording(httpx, self.posts)
        with anyio.fail_after(60):
            async with httpx.AsyncClient(transport=transport, timeout=30) as http_client:
                elicit = lambda params: self.user(params)
                async with connect(self.url, self.era, http_client, elicit) as self.client:
                    await self.passes()

    async def passes(self):
        equal(self.client.version, VERSIONS[self.era], "the negotiated version")
        with anyio.fail_after(5):
            tools = await self.client.tools()
        missing = {"echo", "fail", "panic", "slow", "test_elicitation"} - set(tools)
        equal(missing, set(), f"missing from the tools {tools}")
        await self.echoes("hello")
        await self.reports_progress()
        await self.fails()
        await self.is_cancelled("before its response has begun", {"ms": LONG})
        await self.is_cancelled("while its response streams", {"ms": LONG, "steps": LONG // 50})
        await self.is_asked("Who are you?", "accept", {"username": "Ada", "email": "ada@example.org"})
        await self.is_asked("And now?", "decline")
        await self.is_cancelled_while_asked()

    async def echoes(self, text):
        equal(await self.text("echo", {"text": text}), text, "the echo")

    async def reports_progress(self):
        notes = []

        async def note(progress, total, _message):
            notes.append((progress, total))

        equal(await self.text("slow", {"ms": 400, "steps": 4}, note), "slept 400 ms", "the slow tool's text")
        true(len(notes) >= 3 and notes == sorted(set(notes)), f"progress notes: {notes}")
        equal({total for _, total in notes}, {4}, "the totals of the progress notes")

    async def fails(self):
        with anyio.fail_after(5):
            result = await self.client.call("fail", {})
        true(getattr(result, "is_error", None) or getattr(result, "isError", None), f"no isError: {result}")
        for tool, code in {"panic": -32603, "nosuch": -32602}.items():
            with anyio.fail_after(5):
                try:
                    true(False, f"{tool} answered {await self.client.call(tool, {})}")
                except self.client.failure as failure:
                    equal(failure.error.code, code, f"the error of {tool}")
        await self.echoes("after failures")

    async def is_cancelled(self, when, arguments):
        noted = anyio.Event()

        async def note(*_):
            noted.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.client.call, "slow", arguments, note if "steps" in arguments else None)
            if "steps" in arguments:
                with anyio.fail_after(5):
                    await noted.wait()
            await self.debug_shows("a parked call", lambda page: page["parked"] == 1)
            post = self.posts[-1]
            equal(post.message["params"]["name"], "slow", "the last POST")
            equal(post.status, 200 if "steps" in arguments else None, "the status before the cancel")
            tasks.cancel_scope.cancel()

        if hasattr(self.client, "cancel"):
            await self.echoes("after a scope whose end the server was not told")
            equal((await self.debug())["parked"], 1, "calls parked without a word")
            await self.client.cancel(post.message["id"])
        await self.is_over(f"cancelled {when}")
        await self.has_ended(f"cancelled {when}", post)

    async def is_asked(self, message, action, content=None):
        questions, before = [], len(self.posts)

        async def user(params):
            questions.append(params)
            return action, content

        self.user = user
        answer = {"action": action, **({"content": content} if content else {})}
        equal(json.loads(await self.text("test_elicitation", {"message": message})), answer, "the answer's way back")
        equal([params.message for params in questions], [message], "what the user was asked")
        call, reply, *others = self.posts[before:]
        equal(others, [], "what else was posted")
        if self.era == "legacy":
            equal(reply.message["result"], answer, "the response to the question")
            await until("the end of its POST", lambda: reply.end)
            equal((reply.status, reply.body), (202, b""), "the answer to its POST")
        else:
            equal(reply.message["params"]["inputResponses"], {"user": answer}, "what the second call brings")
            true(reply.message["id"] != call.message["id"], "a second call with the id of the first")
        await self.echoes("after a question")

    async def is_cancelled_while_asked(self):
        asked, patience, told = anyio.Event(), anyio.Event(), anyio.Event()
        how = "cancelled while its user is asked"

        async def user(_params):
            asked.set()
            try:
                await patience.wait()
            except anyio.get_cancelled_exc_class():
                told.set()
                raise
            return "decline", None

        self.user = user
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.client.call, "test_elicitation", {"message": "Who is there?"})
            with anyio.fail_after(5):
                await asked.wait()
            # To a modern client the question was the answer, so nothing waits on the server.
            parked = 1 if self.era == "legacy" else 0
            await self.debug_shows(f"{parked} parked", lambda page: page["parked"] == parked)
            post, posted = self.posts[-1], len(self.posts)
            tasks.cancel_scope.cancel()

        if self.era == "modern":
            true(told.is_set(), "the user is not told that nobody waits for an answer")
            await self.echoes(f"after one {how}")
            equal(len(self.posts), posted + 1, "POSTs, of which the last is the echo")
            equal((await self.debug())["parked"], 0, "parked")
            return
        if hasattr(self.client, "cancel"):
            equal((await self.debug())["parked"], 1, "calls parked without a word")
            await self.client.cancel(post.message["id"])
        await self.is_over(how)
        if self.client.is_deaf_while_asking:
            patience.set()
            await until("the end of a late response", lambda: "result" in self.posts[-1].message and self.posts[-1].end)
            equal((self.posts[-1].status, self.posts[-1].body), (202, b""), "the answer to a late response")
        else:
            await until("that the server takes its question back", told.is_set)
        await self.has_ended(how, post)

    async def is_over(self, how):
        self.cancels += 1
        outcome = "cancelled" if self.era == "legacy" else "disconnected"
        counts = dict.fromkeys(["cancelled", "disconnected", "shut_down", "timed_out"], 0) | {outcome: self.cancels}
        await self.debug_shows(
            f"one more {outcome}, for a call {how}",
            lambda page: (page["parked"], page["handlers"]["cancelled"]) == (0, self.cancels)
            and page["outcomes"] == page["outcomes"] | counts,
        )

    async def has_ended(self, how, post):
        cancels = [post for post in self.posts if post.message.get("method") == "notifications/cancelled"]
        await until(f"the end of a POST {how}", lambda: post.end)
        if self.era == "legacy":
            equal(len(cancels), self.cancels, "notifications/cancelled posted")
            equal(cancels[-1].message["params"]["requestId"], post.message["id"], "the id in the cancel")
            await until("the answer to the cancel", lambda: cancels[-1].end)
            equal((cancels[-1].status, cancels[-1].body), (202, b""), "the answer to the cancel")
            # The SDK left this POST open. The server has answered and ended it.
            answer = post.answer()
            equal((post.end, post.status, answer["error"]["code"]), ("by the server", 200, -32002), answer)
        else:
            equal(cancels, [], "notifications/cancelled posted")
            equal((post.end, post.answer()), ("by the client", None), "the end of the POST")
        await self.echoes(f"after one {how}")

    async def text(self, tool, arguments, on_progress=None):
        with anyio.fail_after(5):
            result = await self.client.call(tool, arguments, on_progress)
        return result.content[0].text

    async def debug(self):
        page = urllib.parse.urljoin(self.url, "/debug")
        return json.loads(await anyio.to_thread.run_sync(lambda: urllib.request.urlopen(page, timeout=2).read()))

    async def debug_shows(self, what, holds):
        pages = []

        async def seen():
            pages.append(await self.debug())
            return holds(pages[-1])

        await until(what, seen, pages)


class Post:
    """A POST of the SDK's."""

    def __init__(self, message):
        self.message, self.status, self.body, self.end = message, None, b"", None

    def answer(self):
        """The answer in the response, if it has come, as JSON or as the last event of a stream."""
        last = self.body.strip().splitlines()[-1:] or [b""]
        try:
            answer = json.loads(last[0].removeprefix(b"data:"))
        except ValueError:
            return None
        return answer if answer.get("id") == self.message["id"] else None


def recording(httpx, posts):
    """The transport of `httpx`, or of its successor, that notes what is posted and how each response ends."""

    class Stream(httpx.AsyncByteStream):
        def __init__(self, inner, post):
            self.inner, self.chunks, self.post = inner, aiter(inner), post

        async def __aiter__(self):
            async for chunk in self.chunks:
                self.post.body += chunk
                yield chunk
            self.post.end = "by the server"

        async def aclose(self):
            if not self.post.end and self.post.answer():
                # The SDK closes a stream after its answer and does not wait for its end. This does.
                with anyio.move_on_after(2):
                    async for _ in self:
                        pass
            self.post.end = self.post.end or "by the client"
            await self.inner.aclose()

    class Transport(httpx.AsyncHTTPTransport):
        async def handle_async_request(self, request):
            if request.method != "POST":
                return await super().handle_async_request(request)
            post = Post(json.loads(request.content))
            posts.append(post)
            try:
                response = await super().handle_async_request(request)
            except BaseException:
                post.end = "by the client"
                raise
            post.status = response.status_code
            response.stream = Stream(response.stream, post)
            return response

    return Transport()


async def until(what, holds, seen=()):
    """Polls: nobody tells a client what happens on the server."""
    deadline = time.monotonic() + 2
    while True:
        now = holds()
        if await now if hasattr(now, "__await__") else now:
            return
        true(time.monotonic() < deadline, f"{what}: not within 2 s; last seen: {seen[-1:]}")
        await anyio.sleep(0.02)


def equal(is_, expected, what):
    true(is_ == expected, f"{what}: {is_!r}, expected {expected!r}")


def true(holds, message):
    if not holds:
        raise AssertionError(message)
