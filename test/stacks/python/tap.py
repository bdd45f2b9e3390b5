"""Assertions, printed as TAP."""

count = 0


def ok(good, name):
    global count
    count += 1
    print(f"{'ok' if good else 'not ok'} {count} - {name}", flush=True)


def equal(got, want, name):
    ok(got == want, name)
    if got != want:
        print(f"#   got {got!r}\n#   want {want!r}", flush=True)


def error_of(function, *arguments):
    """The text of the error that a call raises, or None."""
    try:
        function(*arguments)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def done():
    print(f"1..{count}", flush=True)
