#!/usr/bin/env python3
"""Draws texts of the project for a rating: how clear is each at first reading?

    eval/language/draw.py                                   print 30 texts of each kind
    eval/language/draw.py --peer ../jj --peer ../uv \\
        --sheet sheet.md --key key.md                       mix them unnamed with as many texts of peers

Kinds are errors, helps, dashboard strings, tool descriptions and sentences of the book. Peers have no dashboard and
no tool descriptions; for those kinds, messages and descriptions of settings are drawn from them. The same seed draws
the same texts from the same sources. The sheet hides the sources, and names of programs; the key has them.
"""

import argparse
import pathlib
import random
import re
import sys

PROJECT = pathlib.Path(__file__).resolve().parents[2]
NAMES = re.compile(r"\b(orchestra|jujutsu|jj|uvx?|cargo-nextest|nextest)\b", re.I)
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"', re.S)
LEFT_OUT = re.compile(r"(^|/)(tests?|testing|testutils|fixtures?|fixture-data|benches|examples|target|node_modules|fuzz|workspace-hack|xtask|uv-dev|internal-tools)(/|$)")
NO_PAGE = re.compile(r"(^|/)(internal|reference(?!/rest\.md$)|includes|CHANGELOG|SUMMARY|architecture|development|contributing|technical|design)", re.I)
KINDS = ["error", "help", "message", "description", "sentence"]
TITLES = {"message": "message", "description": "message"}


def files(root, suffix, below=""):
    found = sorted((root / below).rglob(f"*{suffix}"))
    named = [(path, path.relative_to(root).as_posix()) for path in found]
    return [(name, path.read_text(errors="replace")) for path, name in named if not LEFT_OUT.search(name)]


def code(text):
    """The lines before the unit tests that end a file."""
    return re.split(r"#\[cfg\(test\)\]\s*(?:pub(?:\(\w+\))? )?mod ", text)[0]


def unescaped(literal):
    text = re.sub(r"\\\n\s*", "", literal)
    return text.replace('\\"', '"').replace("\\\\", "\\").replace("\\n", " ")


def after(text, marker):
    """The string literals that follow a marker, with their positions."""
    for match in re.finditer(marker + r'\s*"((?:[^"\\]|\\.)*)"', text, re.S):
        yield match.start(), unescaped(match.group(1))


def comments(text, is_wanted):
    """First paragraphs of doc comments of items that clap or a settings macro reads."""
    comment, start, is_in = [], 0, False
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        stripped = line.strip()
        if stripped.startswith("///"):
            start = start if comment else number
            comment.append(stripped[3:].strip())
            continue
        if stripped.startswith("#[derive("):
            is_in = is_wanted(stripped, lines[number : number + 3])
        if comment and is_in and stripped:
            first = " ".join(comment).split("  ")[0] if "" not in comment else " ".join(comment[: comment.index("")])
            yield start, first
        comment = comment if stripped.startswith("#[") and not is_in else []
        is_in = is_in and line != "}" and not re.match(r"\S.*(\{\}|;)$", line)


def sentences(page):
    """Sentences of the paragraphs and list items of a Markdown page."""
    page = re.sub(r"\A---\n.*?\n---\n|```.*?```|<!--.*?-->|\{%.*?%\}", "", page, flags=re.S)
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", page):
        block = re.sub(r"\s+", " ", re.sub(r"^\s*(?:[-*]|\d+\.) ", "", block)).strip()
        if not block or block[0] in "|#<!>[:" or block.startswith(("===", "???", "~~~")):
            continue
        block = re.sub(r"\[([^\]]*)\](\([^)]*\)|\[[^\]]*\])?", r"\1", block)
        for sentence in re.split(r"(?<=[.!?]) (?=[A-Z`*])", block):
            if sentence.endswith(".") and len(sentence.split()) >= 5:
                yield sentence


def derives(*names):
    return lambda derive, _: any(re.search(rf"\b{name}\b", derive) for name in names)


def numbered(text, found):
    return [(text.count("\n", 0, at) + 1, said) for at, said in found]


def errors(root):
    for name, text in files(root, ".rs"):
        text = code(text)
        yield from ((name, *each) for each in numbered(text, after(text, r"#\[error\(")))


def helps(root, below=""):
    for name, text in files(root, ".rs", below):
        found = comments(code(text), derives("Args", "Parser", "Subcommand", "ValueEnum"))
        # Help of the project has no full stop at its end; a comment with one is of a type that clap does not print.
        found = (each for each in found if root != PROJECT or not each[1].endswith("."))
        yield from ((name, *each) for each in found)


def book(root, below):
    for name, text in files(root, ".md", below):
        if not NO_PAGE.search(name):
            yield from ((name, 0, sentence) for sentence in sentences(text))


def dashboard(root):
    for name, text in files(root, ".js", "crates/orchestra-web/assets"):
        text = re.sub(r"/\*.*?\*/|(?<![:\"'])//[^\n]*", lambda at: "\n" * at.group().count("\n"), text, flags=re.S)
        found = re.finditer(r'"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`', text)
        found = [(at.start(), (at.group(1) or at.group(2) or "").replace("${", "{")) for at in found]
        found = [(at, said) for at, said in found if is_text(said)]
        yield from ((name, *each) for each in numbered(text, found))


def is_text(literal):
    """Whether a literal of a script is a text for users, not a path, a selector, a drawing or a part of one."""
    is_plain = re.match(r"[A-Z{][\w’'{}.:,;!?()…%/& -]+$", literal) and not re.search(r"\}/|M\d", literal)
    return bool(is_plain) and literal.count("{") == literal.count("}")


def tools(root):
    for name, text in files(root, ".rs", "crates/orchestra-tools/src"):
        marker = r'"description":' if name.endswith("/generated.rs") else r"Effect::\w+,"
        yield from ((name, *each) for each in numbered(text, after(code(text), marker)))


def messages(root):
    """What a peer prints beside errors: statuses, warnings and hints."""
    macros = r"(?:warn_user(?:_once)?!|writeln!|write!|user_error\w*|bail!|info!|warn!)"
    marker = macros + r"\(\s*(?:[\w.&()]+,\s*)?(?:format!\()?"
    for name, text in files(root, ".rs"):
        text = code(text)
        yield from ((name, *each) for each in numbered(text, after(text, marker)))


def settings(root):
    """Descriptions of a peer's settings."""
    is_wanted = lambda derive, _: re.search(r"\b(OptionsMetadata|Deserialize)\b", derive)
    for name, text in files(root, ".rs"):
        if re.search(r"(settings|config)[^/]*\.rs$|/(user_)?config/", name):
            yield from ((name, *each) for each in comments(code(text), is_wanted))


def own():
    root = PROJECT
    return {
        "error": errors(root),
        "help": helps(root, "crates/orchestra/src"),
        "message": dashboard(root),
        "description": tools(root),
        "sentence": book(root, "docs"),
    }


def of_peer(root):
    pages = "site" if (root / "site").is_dir() else "docs"
    return {
        "error": errors(root),
        "help": helps(root),
        "message": messages(root),
        "description": settings(root),
        "sentence": book(root, pages),
    }


def texts(found):
    """The texts of several words, each once."""
    kept = {}
    for name, line, said in found:
        said = re.sub(r"\s+", " ", said).strip()
        words = re.sub(r"\{[^}]*\}", "", said)
        if len(re.findall(r"[A-Za-z]{2,}", words)) >= 3:
            kept.setdefault(said, f"{name}:{line}" if line else name)
    return list(kept.items())


def draw(texts, count, random):
    if len(texts) < count:
        sys.exit(f"only {len(texts)} texts of a kind, {count} are needed")
    return random.sample(texts, count)


def shown(text):
    text = re.sub(r"\{[^}]*\}", "{…}", text)
    text = re.sub(r"\b(ORCHESTRA|ORCHESTRATOR|JJ|UV|NEXTEST)_\w+", "PROGRAM_VARIABLE", text)
    return NAMES.sub("PROGRAM", text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=39, help="seed of the drawing (default: 39)")
    parser.add_argument("--count", type=int, default=30, help="texts of each kind (default: 30)")
    parser.add_argument("--peer", action="append", default=[], help="source tree of a peer; may be repeated")
    parser.add_argument("--sheet", help="file for the mixed texts (default: standard output)")
    parser.add_argument("--key", help="file for the sources of the mixed texts; required with --peer")
    arguments = parser.parse_args()
    if bool(arguments.peer) != bool(arguments.key):
        parser.error("--peer and --key belong together")
    dice = random.Random(arguments.seed)
    drawn = [(kind, "own", draw(texts(found), arguments.count, dice)) for kind, found in own().items()]
    if not arguments.peer:
        for kind, _, found in drawn:
            print(f"\n## {kind}\n")
            for text, at in found:
                print(f"- {text}  <{at}>")
        return
    peers = [pathlib.Path(peer).resolve() for peer in arguments.peer]
    shares = [arguments.count // len(peers) + (place < arguments.count % len(peers)) for place in range(len(peers))]
    for peer, share in zip(peers, shares):
        found = of_peer(peer)
        drawn += [(kind, peer.name, draw(texts(found[kind]), share, dice)) for kind in KINDS]
    mixed = [(kind, source, text, at) for kind, source, found in drawn for text, at in found]
    dice.shuffle(mixed)
    sheet = ["# Rating sheet", "", "Rate each text from 1 (unclear) to 5 (clear at first reading). `{…}` is a value.", ""]
    sheet += ["| number | kind | text | rating |", "|---|---|---|---|"]
    key = ["# Key of the rating sheet", "", "| number | source | kind | place |", "|---|---|---|---|"]
    for number, (kind, source, text, at) in enumerate(mixed, 1):
        text = shown(text).replace("|", "\\|")
        sheet.append(f"| {number} | {TITLES.get(kind, kind)} | {text} | |")
        key.append(f"| {number} | {source} | {kind} | {at} |")
    pathlib.Path(arguments.key).write_text("\n".join(key) + "\n")
    text = "\n".join(sheet) + "\n"
    if arguments.sheet:
        pathlib.Path(arguments.sheet).write_text(text)
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
