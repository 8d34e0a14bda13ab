"""Makes a case smaller while what is wrong with it stays."""

import ast
import copy


def statements_removed(tree):
    """Trees with one statement less, or with a compound statement's body in its place; the largest parts first."""
    lists = [(node, field) for node in ast.walk(tree) for field in ("body", "orelse")
             if isinstance(getattr(node, field, None), list) and getattr(node, field)]
    for number, (node, field) in enumerate(lists):
        for i, statement in enumerate(getattr(node, field)):
            for replacement in ([], getattr(statement, "body", None)):
                if replacement is None or isinstance(statement, ast.FunctionDef) and (replacement
                                                                                      or statement.name == "kernel"):
                    continue
                yield lambda t, at=(number, field, i), new=replacement: replace_statement(t, *at, new)


def replace_statement(tree, number, field, i, replacement):
    lists = [(node, f) for node in ast.walk(tree) for f in ("body", "orelse")
             if isinstance(getattr(node, f, None), list) and getattr(node, f)]
    node, _ = lists[number]
    body = getattr(node, field)
    body[i:i + 1] = copy.deepcopy(replacement)
    if not body and field == "body":
        body.append(ast.Pass())


def expressions_simplified(tree):
    """Trees in which an expression is one of its parts, or a keyword argument is gone."""
    for number, node in enumerate(ast.walk(tree)):
        for field, value in ast.iter_fields(node):
            if isinstance(value, ast.Call) and value.keywords:
                for i in range(len(value.keywords)):
                    yield lambda t, at=(number, field, i): remove_keyword(t, *at)
            if isinstance(value, (ast.BinOp, ast.Call)):
                parts = [value.left, value.right] if isinstance(value, ast.BinOp) else [*value.args]
                if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
                    parts.append(value.func.value)
                for part in parts:
                    if not isinstance(part, (ast.Name, ast.Constant)) or getattr(part, "id", "") != "tl":
                        yield lambda t, at=(number, field), new=part: replace_expression(t, *at, new)


def replace_expression(tree, number, field, part):
    setattr(list(ast.walk(tree))[number], field, copy.deepcopy(part))


def remove_keyword(tree, number, field, i):
    del getattr(list(ast.walk(tree))[number], field).keywords[i]


def used_parameters(case):
    """The case without parameters that its text does not name."""
    tree = ast.parse(case["text"])
    kernel = next(f for f in tree.body if isinstance(f, ast.FunctionDef) and f.name == "kernel")
    used = {node.id for node in ast.walk(kernel) if isinstance(node, ast.Name)}
    kernel.args.args = [a for a in kernel.args.args if a.arg in used]
    return {
        **case, "text": ast.unparse(tree) + "\n",
        "arrays": {
            k: v
            for k, v in case["arrays"].items() if k in used
        },
        "numbers": {
            k: v
            for k, v in case["numbers"].items() if k in used
        }
    }


def simpler_options(case):
    for name, least in (("programs", 1), ("num_stages", 1), ("num_warps", 1), ("maxnreg", 0), ("num_ctas", 1)):
        if case.get(name, least) != least:
            yield lambda n=name, l=least: {**case, n: l}
    for name in case.get("options", {}):
        yield lambda n=name: {**case, "options": {k: v for k, v in case["options"].items() if k != n}}
    for name, array in case["arrays"].items():
        if array["offset"]:
            yield lambda n=name, a=array: {**case, "arrays": {**case["arrays"], n: {**a, "offset": 0}}}


def with_change(case, change):
    changed = ast.parse(case["text"])  # quicker than a copy
    change(changed)
    return {**case, "text": ast.unparse(ast.fix_missing_locations(changed)) + "\n"}


def simpler_texts(case):
    tree = ast.parse(case["text"])
    for change in (*statements_removed(tree), *expressions_simplified(tree)):
        yield lambda c=change: with_change(case, c)


def reduced(case, still_wrong, out_of_time):
    """The smallest case found of which still_wrong(case) holds, before out_of_time() does."""
    progress = True
    while progress and not out_of_time():
        progress, at = False, 0
        changes = [*simpler_options(case), *simpler_texts(case)]
        while at < len(changes) and not out_of_time():
            simpler = changes[at]()
            if len(simpler["text"]) <= len(case["text"]) and simpler != case and still_wrong(simpler):
                case, progress = simpler, True
                changes = [*simpler_options(case), *simpler_texts(case)]  # those ahead have been tried on what was
            else:
                at += 1
    return used_parameters(case)
