"""Read extension scripts with the server's own parser, and complain about each name that
could be bound to somebody else's object.

    names.py CATALOG SCRIPT...          the scripts, the bodies in them, and the
                                        statements that these bodies put together
    names.py --statements CATALOG FILE  statements that ran in our functions, each ended by
                                        a NUL; a user's table is in any schema, and so
                                        is what is ours
    names.py --made CATALOG FILE        CREATE FUNCTION statements, as the server shows
                                        those of a schema "extschema"

CATALOG has a line for each name in pg_catalog: "function format".

A script sets search_path to pg_catalog, pg_temp first.  So does each function whose body
is text.  Then a name is safe if it is

  - qualified with pg_catalog, or with the extension's schema;
  - or not qualified, and one of pg_catalog's (or a WITH query's): nobody else's is found
    before it.

A function that was made may have the search_path of whoever calls it, if all names in its
body are qualified, and operators too.

An object of the extension's own has the extension's schema in front, wherever it stands.
A call of an own function has arguments whose types are known: nobody who may create
functions in that schema can offer a better match.  And no body that is kept as text has
@extschema@ in it, since the schema can be renamed.
"""

import itertools
import json
import re
import sys

from pglast import ast, parse_plpgsql, parse_sql
from pglast.enums import A_Expr_Kind, ObjectType
from pglast.parser import ParseError

OWN = "extschema"  # what stands for the schema
BEGINS = r"\s*(SELECT|WITH|INSERT|UPDATE|DELETE|LOCK|CREATE|ALTER|DROP|GRANT|REVOKE|COMMENT|REFRESH|REINDEX|ANALYZE)\b"
# What may stand where a statement is put together: nothing, names, a number, clauses.
FILLINGS = ("", "pg_catalog.pg_class", "pg_catalog.now()", "5", "placeholder", "DEFAULT", "DROP placeholder")


class Reader:
    def __init__(self, catalog):
        self.catalog = {tuple(line.split(" ", 1)) for line in catalog.read().splitlines()}
        self.schemas = {OWN, "pg_catalog"}
        self.made_here = set()  # own names
        self.signatures = {}  # own functions: name -> lists of argument types
        self.findings = []
        self.read = 0  # statements
        self.where = ""
        self.strict = False  # whatever is found first is taken
        self.ran = False  # with the real schemas in it
        self.was_made = False
        self.said = False  # to people: they read it first

    def complain(self, text):
        self.findings.append(f"{self.where}: {text}")

    # --- names

    def name(self, kind, parts, local=()):
        """A name that is used, as a list of its parts."""
        parts = [part.sval for part in parts] if parts and hasattr(parts[0], "sval") else list(parts)
        if len(parts) == 1 and parts[0] in local:
            return
        if len(parts) == 1:
            if self.strict or (kind, parts[0]) not in self.catalog:
                self.complain(f'{kind} "{parts[0]}" is not qualified' + ("" if self.strict else ", and not in pg_catalog"))
        elif self.ran and (kind == "relation" or parts[-1].startswith("snowflake")):
            return
        elif parts[0] not in self.schemas:
            self.complain(f'{kind} "{".".join(parts)}" is in a schema of somebody else')

    def made(self, kind, parts):
        """A name that is made: with nothing in front it would go into pg_catalog."""
        parts = [part.sval for part in parts if hasattr(part, "sval")]
        if len(parts) != 2 or parts[0] != OWN and not self.ran:
            self.complain(f'{kind} "{".".join(parts)}" is not made in the extension\'s schema')

    # --- trees

    def tree(self, node):
        self.read += 1
        queries = {n.ctename for n in walk(node) if isinstance(n, ast.CommonTableExpr)}
        locked = {id(n) for lock in walk(node) if isinstance(lock, ast.LockingClause) for n in walk(lock)}  # aliases
        for n in walk(node):
            if id(n) in locked:
                continue
            method = getattr(self, "on_" + type(n).__name__, None)
            if method:
                method(n, queries)

    def on_RangeVar(self, n, queries):
        self.name("relation", [n.schemaname, n.relname] if n.schemaname else [n.relname], queries)

    def on_TypeName(self, n, queries):
        if n.names:  # %TYPE has none
            self.name("type", n.names)

    def on_FuncCall(self, n, queries):
        self.name("function", n.funcname)
        if len(n.funcname) == 2 and (n.funcname[0].sval == OWN or self.ran and n.funcname[1].sval.startswith("snowflake")):
            self.own_call(n.funcname[1].sval, n.args or ())
        elif n.funcname[-1].sval == "format":
            self.template(n.args)

    def on_A_Expr(self, n, queries):
        if n.kind in (A_Expr_Kind.AEXPR_OP, A_Expr_Kind.AEXPR_OP_ANY, A_Expr_Kind.AEXPR_OP_ALL):
            self.name("operator", n.name)

    def on_A_Const(self, n, queries):
        if self.was_made and isinstance(n.val, ast.String) and re.match(r"snowflake_\w*\Z", n.val.sval):
            self.complain(f'the name "{n.val.sval}" is not qualified')

    def on_TypeCast(self, n, queries):
        if n.typeName.names and n.typeName.names[-1].sval == "regclass" and isinstance(n.arg, ast.A_Const) and isinstance(n.arg.val, ast.String) and n.arg.val.sval != "placeholder":
            self.name("relation", n.arg.val.sval.split("."))

    def on_DropStmt(self, n, queries):
        if n.removeType in (ObjectType.OBJECT_SEQUENCE, ObjectType.OBJECT_TABLE, ObjectType.OBJECT_VIEW):
            for name in n.objects:
                self.name("relation", name)

    def on_AlterSeqStmt(self, n, queries):
        for option in n.options or ():
            if option.defname == "owned_by" and len(option.arg) > 1:  # else NONE
                self.name("relation", option.arg[:-1])

    def on_CollateClause(self, n, queries):
        self.name("collation", n.collname)

    def on_ObjectWithArgs(self, n, queries):
        name = [part.sval for part in n.objname]
        kind = "operator" if not re.match(r"\w", name[-1]) else "function"
        self.name(kind, name)

    def on_DefineStmt(self, n, queries):
        self.made("object", n.defnames)
        for option in n.definition or ():
            if option.defname in ("commutator", "negator"):
                self.made("operator", option.arg)

    def on_CreateFunctionStmt(self, n, queries):
        self.made("function", n.funcname)
        options = {option.defname: option.arg for option in n.options}
        if "support" in options:
            self.made("support function", options["support"])

    def on_GrantStmt(self, n, queries):
        if n.objtype == ObjectType.OBJECT_TYPE:
            for name in n.objects:
                self.name("type", name)

    def on_ViewStmt(self, n, queries):
        if n.view.schemaname not in (OWN, None) and not self.ran:  # without one, on_RangeVar complains
            self.complain(f'view "{n.view.relname}" is not made in the extension\'s schema')

    def on_CreateOpClassStmt(self, n, queries):
        self.made("operator class", n.opclassname)

    def on_AlterOpFamilyStmt(self, n, queries):
        self.made("operator family", n.opfamilyname)

    def on_CommentStmt(self, n, queries):
        if isinstance(n.object, ast.ObjectWithArgs):
            self.made("object", n.object.objname)
        if isinstance(n.object, (tuple, list)) and all(isinstance(part, ast.String) for part in n.object):
            parts = [part.sval for part in n.object]
            if n.objtype in (ObjectType.OBJECT_OPCLASS, ObjectType.OBJECT_OPFAMILY):
                parts = parts[1:]  # the access method's
            self.name("relation", parts[:2])

    # --- calls of own functions

    def own_call(self, name, args):
        if self.said:
            return
        for place, arg in enumerate(args):
            if isinstance(arg, ast.NamedArgExpr):
                arg = arg.arg
            if isinstance(arg, ast.A_Const):
                what = "an untyped literal"
                if isinstance(arg.val, ast.Boolean):
                    continue
                if isinstance(arg.val, ast.Integer):
                    if any(len(s) > place and s[place] == "int4" for s in self.signatures.get(name, ())) or self.ran:
                        continue
                    what = "an integer"
                self.complain(f"{OWN}.{name}() is called with {what} as argument {place + 1}, which other functions could fit as well")

    # --- bodies

    def script(self, path, made=False):
        with open(path) as f:
            text = re.sub(r"^\\.*$", "", f.read(), flags=re.M)
        text = text.replace("@extschema@", OWN)
        statements = parse_sql(text)
        first = text[: statements[0].stmt_location + (statements[0].stmt_len or 0)]
        self.where = path
        self.was_made = made
        if not made and not re.search(r"SET LOCAL search_path = pg_catalog, pg_temp\Z", first):
            self.complain("it does not begin with SET LOCAL search_path = pg_catalog, pg_temp")
        for s in statements:
            for n in walk(s.stmt):
                if isinstance(n, ast.DefineStmt):
                    self.made_here.add(n.defnames[-1].sval)
                if isinstance(n, ast.CreateStmt):
                    self.made_here.add(n.relation.relname)
                if isinstance(n, ast.CompositeTypeStmt):
                    self.made_here.add(n.typevar.relname)
                if isinstance(n, ast.CreateFunctionStmt):
                    self.made_here.add(n.funcname[-1].sval)
                    self.signatures.setdefault(n.funcname[-1].sval, []).append(
                        [p.argType.names[-1].sval for p in n.parameters or () if p.mode.value in ("i", "d", "b", "v")]
                    )
        for s in statements:
            source = text[s.stmt_location :][: s.stmt_len or None]
            line = text.count("\n", 0, s.stmt_location + len(source) - len(source.lstrip())) + 1
            self.where = f"{path}:{line}"
            self.tree(s.stmt)
            for n in walk(s.stmt):
                if isinstance(n, ast.A_Const) and isinstance(n.val, ast.String) and n.val.sval in self.made_here:
                    self.complain(f'"{n.val.sval}" is not qualified')
            if isinstance(s.stmt, ast.CreateFunctionStmt):
                self.function(s.stmt, source, made)
            elif isinstance(s.stmt, ast.DoStmt):
                self.plpgsql(source)

    def function(self, n, source, made):
        options = {option.defname: option.arg for option in n.options}
        language = options["language"].sval.lower()
        if n.sql_body or language in ("c", "internal"):
            return
        settings = [o.arg for o in n.options if o.defname == "set" and o.arg.name == "search_path"]
        is_set = settings and [a.val.sval for a in settings[0].args] == ["pg_catalog", "pg_temp"]
        body = options["as"][0].sval
        if not is_set and not made:
            self.complain("its body is text, and it does not SET search_path = pg_catalog, pg_temp")
        if OWN in body and not made:
            self.complain("its body has @extschema@, and the schema can be renamed")
        self.strict = not is_set
        if language == "sql":
            for s in parse_sql(body):
                self.tree(s.stmt)
        else:
            self.plpgsql(source)
        self.strict = False

    def plpgsql(self, source):
        # this parser knows no fields of records, and no columns that are OUT
        source = re.sub(r"\bRETURN NEXT;", "NULL;", source)
        source = re.sub(r"^(\s*)\w+(?:\.\w+)+ := ", r"\1PERFORM ", source, flags=re.M)
        source = re.sub(r"\bINTO (?:\w+\.\w+(?:, )?)+", "", source)
        try:
            tree = parse_plpgsql(source)
        except ParseError as e:
            self.complain(f"the parser cannot read this body: {e}")
            return
        for n in nodes(tree):
            if "PLpgSQL_expr" in n:
                self.expression(n["PLpgSQL_expr"]["query"])
            if "PLpgSQL_type" in n:
                self.declared(n["PLpgSQL_type"]["typname"])

    def expression(self, query):
        for candidate in (query, "SELECT " + query, "SELECT " + re.sub(r"^\s*[\w.\[\]]+\s*:?=", "", query)):
            try:
                for s in parse_sql(candidate):
                    self.tree(s.stmt)
                return
            except ParseError:
                pass
        self.complain(f"the parser cannot read: {query}")

    def declared(self, name):
        name = name.strip().strip('"')
        if name and name.lower() not in ("record", "unknown") and "%" not in name:
            self.expression(f"NULL::{name}")

    # A statement that is put together: what is put in is a name with its schema, or
    # nothing, or a number.
    def template(self, args):
        if not args or not isinstance(args[0], ast.A_Const) or not hasattr(args[0].val, "sval"):
            return
        text = args[0].val.sval
        if "{schema}" in text:  # functions that snowflake_plain makes: read as made
            return
        for name in [re.sub(r"\(.*\)\Z", "", text), *re.findall(r"::(\w+)", text)]:
            if name in self.made_here:
                self.complain(f'"{name}" is not qualified in "{text}"')
        is_call = re.match(r"%(\d+\$)?s\.\w+\(", text)  # or the text of a signature
        if is_call:
            text = "SELECT " + text
        elif not re.match(BEGINS, text):
            return
        fill = []
        at = 0

        def put(match):
            nonlocal at
            if match.group(0) == "%%":
                return "%"
            at = int(match.group(1)[:-1]) if match.group(1) else at + 1
            arg = args[at] if at < len(args) else None
            kind = match.group(2)
            if kind == "I":
                return "placeholder"
            if kind == "L":
                return "'placeholder'"
            if isinstance(arg, ast.ColumnRef) and arg.fields[-1].sval in ("own", "schema"):
                return OWN
            fill.append(at)
            return f"\0{at}\0"

        text = re.sub(r"%(?:%|(\d+\$)?([sIL]))", put, text)
        places = sorted(set(fill))
        least = None  # findings, of the fillings with which the parser can read it
        for start, *values in itertools.product(("", "ALTER TABLE pg_catalog.pg_class "), *[FILLINGS] * len(places)):
            candidate = start + text
            for place, value in zip(places, values):
                candidate = candidate.replace(f"\0{place}\0", value)
            try:
                statements = parse_sql(candidate)
            except ParseError:
                continue
            self.findings, before = [], self.findings
            self.said = text.rstrip().endswith(";")
            for s in statements:
                self.tree(s.stmt)
            self.said = False
            self.findings, found = before, self.findings
            if least is None or len(found) < len(least):
                least = found
            if not least:
                return
        if least is None and not is_call:
            self.complain(f"the parser cannot read: {text}")
        self.findings += least or []

    # --- statements that ran

    def statements(self, path):
        self.ran = True
        with open(path) as f:
            ran = f.read().split("\0")
        for text in filter(None, (r.strip() for r in ran)):
            self.where = text
            self.schemas = {"pg_catalog", *re.findall(r'(\w+|"[^"]+")\.snowflake_\w+\(', text)}  # our operators' is ours
            self.expression(text)


def walk(node):
    """All nodes of a tree of pglast's."""
    if isinstance(node, (tuple, list)):
        for n in node:
            yield from walk(n)
    elif isinstance(node, ast.Node):
        yield node
        for member in node:
            yield from walk(getattr(node, member))


def nodes(tree):
    """All objects of a tree of JSON."""
    if isinstance(tree, list):
        for n in tree:
            yield from nodes(n)
    elif isinstance(tree, dict):
        yield tree
        for n in tree.values():
            yield from nodes(n)


def main(arguments):
    mode = arguments.pop(0) if arguments[0].startswith("--") else ""
    catalog, *paths = arguments
    with open(catalog) as f:
        reader = Reader(f)
    for path in paths:
        if mode == "--statements":
            reader.statements(path)
        else:
            reader.script(path, mode == "--made")
    for finding in dict.fromkeys(reader.findings):
        print(finding)
    print(f"{reader.read} statements read, {len(dict.fromkeys(reader.findings))} findings")
    return bool(reader.findings)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
