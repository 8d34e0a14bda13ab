// What changes lists and dicts. In host code all who hold one see the change, as in Python. In a kernel, whose branches
// and loops keep values of names, a changed list is another value of its name, and one that has two names does not
// change.
#include <fmt/format.h>

#include <algorithm>

#include "dsl/language/checker_impl.h"
#include "dsl/language/host_values.h"

namespace tegula::language {

namespace {

// Of a list or dict that is to change.
std::vector<Val>& items_of(const Val& list) { return const_cast<std::vector<Val>&>(*list.as<dsl::TupleVal>().items); }
DictObject& dict_in(const Val& dict) { return const_cast<DictObject&>(*get_host<DictObject>(dict)); }

const dsl::TupleVal* get_list(const Val& v) {
  const auto* tuple = v.get_if<dsl::TupleVal>();
  return tuple && tuple->is_list ? tuple : nullptr;
}

long holders_of(const Val& v) {
  const auto* tuple = v.get_if<dsl::TupleVal>();
  return tuple ? tuple->items.use_count() : v.as<dsl::HostRef>().use_count();
}

Val copy_of(const Val& v) {
  const auto* tuple = v.get_if<dsl::TupleVal>();
  return tuple ? dsl::make_list(*tuple->items) : make_host(DictObject(dict_in(v)));
}

size_t size_of(const Val& v) {
  const auto* tuple = v.get_if<dsl::TupleVal>();
  return tuple ? tuple->items->size() : 2 * dict_in(v).items.size();
}

}  // namespace

bool Checker::change(const Val& object, std::span<const Val> taken, const Expr& base,
                     const std::function<void(const Val&)>& how, std::optional<size_t> place) {
  if (!host_) return change_in_kernel(object, taken, base, how);
  if (auto it = kept_.find(identity_of(object)); it != kept_.end()) {
    error(base.loc, fmt::format("{} changes here, which is not evaluated", it->second.what),
          "change a copy: list(x), dict(x)");
    return false;
  }
  if (late_.frame && holds_from(late_.frame, object)) {
    error(base.loc,
          "what is there already changes while an iterator makes its items, in Python when they are asked for",
          "make a list of them: [f(x) for x in xs]");
    return false;
  }
  ++host_changes_;
  // A name, or what it is in, holds it beside `object`; an item cannot where nobody else does.
  constexpr long kOwn = 2;
  const long holders = holders_of(object);
  Held held;
  for (const Val& item : taken)
    if (holders > kOwn) held += held_in(item, identity_of(object));
  if (!count_made(int64_t(taken.size()) + held.visited, base.loc)) return false;
  note_change(object, place);
  if (held.times == 0) {
    how(object);
    return true;
  }
  if (base.kind != Expr::Kind::Name || holders > kOwn + held.times) {
    error(base.loc,
          fmt::format("a {} that holds itself is not evaluated here", object.is<dsl::TupleVal>() ? "list" : "dict"));
    return false;
  }
  const Val changed = copy_of(object);
  how(changed);
  if (count_made(int64_t(size_of(changed)), base.loc)) bind(base.text, changed, base.loc);
  return true;
}

// Whether the names of a frame or of those that called it hold a list or dict.
bool Checker::holds_from(const Frame* frame, const Val& object) {
  Held held;
  for (const Frame* f = frame; f && held.times == 0; f = f->parent)
    for (const auto& [name, binding] : f->scope) held += held_in(binding.value, identity_of(object));
  return !count_made(held.visited, {}) || held.times > 0;
}

// Tells the iterators over the list or dict: what their loops have had of it already may change.
void Checker::note_change(const Val& source, std::optional<size_t> place) {
  for (auto& [key, run] : runs_)
    if (!run.is_finished) run.changed.insert(identity_of(source));
  for (auto& [identity, iterator] : iterators_) {
    if (std::none_of(iterator.sources.begin(), iterator.sources.end(),
                     [&](const Val& other) { return identity_of(other) == identity_of(source); }))
      continue;
    iterator.changed = true;
    iterator.changed_ahead |= !place || !iterator.in_order || *place >= iterator.given;
  }
}

bool Checker::change_in_kernel(const Val& list, std::span<const Val> taken, const Expr& base,
                               const std::function<void(const Val&)>& how) {
  if (!get_list(list) || base.kind != Expr::Kind::Name || !frame_->scope.contains(base.text)) {
    error(base.loc, "a kernel changes lists of its own alone", "make another value: x = x + [item]");
    return false;
  }
  Held others = held_elsewhere(identity_of(list), base.text);
  for (const Val& item : taken) others += held_in(item, identity_of(list));
  if (!count_made(int64_t(taken.size() + size_of(list)) + others.visited, base.loc)) return false;
  if (others.times > 0 || shared_.contains(identity_of(list))) {
    error(base.loc, fmt::format("the list '{}' changes, which may be held by another name too", base.text),
          fmt::format("make a copy ahead: {0} = list({0})", base.text));
    return false;
  }
  ++changes_;
  const Val changed = copy_of(list);
  how(changed);
  assign_name(base.text, changed, base.loc);
  return true;
}

Held Checker::held_elsewhere(const void* list, std::string_view name) const {
  Held held;
  for (const Frame* f = frame_; f; f = f->parent) {
    for (const auto& [other, binding] : f->scope)
      if (f != frame_ || other != name) held += held_in(binding.value, list);
    for (const Val& argument : f->arguments) held += held_in(argument, list);
    for (const LoopContext& loop : f->loops) held += held_in(loop.items, list);
  }
  for (const auto& [key, run] : runs_)
    for (const auto& [global, binding] : run.frame.scope) held += held_in(binding.value, list);
  for (const auto& [param, value] : defaults_) held += held_in(value, list);
  return held;
}

bool Checker::may_share(std::string_view name, const Val& value) const {
  if (!value.is<dsl::TupleVal>()) return false;
  const auto lists = containers_in(value);
  return std::any_of(lists.begin(), lists.end(), [&](const void* list) {
    return shared_.contains(list) || held_in(value, list).times > 1 || held_elsewhere(list, name).times > 0;
  });
}

void Checker::keep_shared(std::string_view name, const Val& before, const Val& after) {
  if (!may_share(name, before)) return;
  for (const Val* value : {&before, &after})
    for (const void* list : containers_in(*value)) shared_.try_emplace(list, *value);
}

void Checker::keep(const Val& value, const std::string& what) {
  for (const void* container : containers_in(value)) kept_.try_emplace(container, Kept{what, value});
}

// ---- Lists

Val Checker::grow_list(const Val& list, const Expr& callee, const std::vector<Argument>& args, Loc loc) {
  const std::string& name = callee.text;
  if (!takes_arguments(1, 1, name, args, loc)) return Val();
  const Expr& target = *callee.children[0];
  if (host_ && args[0].value.is_poison()) return Val();
  if (unknown_ || (name == "extend" && args[0].value.is_poison())) {  // how many items it has then is not known
    if (target.kind == Expr::Kind::Name) bind(target.text, Val(), target.loc);
    return Val(dsl::None{});
  }
  if (name == "append") return extend_list(list, {args[0].value}, target) ? Val(dsl::None{}) : Val();
  auto items = items_for(list, args[0].value, args[0].loc);
  return items && extend_list(list, std::move(*items), target) ? Val(dsl::None{}) : Val();
}

// The items by which a list grows, which an iterator over that list makes while it does.
std::optional<std::vector<Val>> Checker::items_for(const Val& list, const Val& value, Loc loc) {
  const auto iterator = iterators_.find(identity_of(value));
  const bool is_over_list = iterator != iterators_.end() && identity_of(value) != identity_of(list) &&
                            std::any_of(iterator->second.sources.begin(), iterator->second.sources.end(),
                                        [&](const Val& v) { return held_in(v, identity_of(list)).times > 0; });
  if (!is_over_list) return iterate(value, loc);
  error(loc, "a list or dict changes before an iterator over it has given its items", "list(...) keeps them");
  return std::nullopt;
}

bool Checker::extend_list(const Val& list, std::vector<Val> more, const Expr& base) {
  if (list.as<dsl::TupleVal>().items->size() + more.size() > kMaxItems) {
    error(base.loc, fmt::format("a list of more than {} items", kMaxItems));
    return false;
  }
  return change(list, more, base, [&](const Val& changed) {
    std::vector<Val>& items = items_of(changed);
    items.insert(items.end(), more.begin(), more.end());
  });
}

void Checker::set_element(const Val& list, const Val& index, Val item, const Expr& target) {
  sema_.at(target.loc);
  if (!get_list(list)) {
    error(target.loc, "the elements of a tuple cannot be assigned", "a list's can: list(t) makes one");
    return;
  }
  if (index.is<dsl::Slice>()) {
    error(target.loc, "a list's elements are assigned one at a time");
    return;
  }
  if (dsl::subscript(sema_, list, {index}).is_poison()) return;
  const int64_t at = index.is<bool>() ? index.as<bool>() : index.as<dsl::Int>().clamped();
  const size_t place = size_t(at < 0 ? at + int64_t(list.as<dsl::TupleVal>().items->size()) : at);
  change(
      list, {&item, 1}, *target.children[0], [&](const Val& changed) { items_of(changed)[place] = item; }, place);
}

// xs[i] = value in a kernel. False if it is no list or tuple.
bool Checker::assign_item(const Expr& target, const Val& value) {
  const Expr& base = *target.children[0];
  if (base.kind != Expr::Kind::Name || !frame_->scope.contains(base.text)) return false;
  const Val list = lookup(base);
  if (list.is_poison()) return true;
  if (!list.is<dsl::TupleVal>()) return false;
  const auto indices = eval_index(target);
  if (indices && indices->size() != 1) error(target.loc, "a list's elements are assigned one at a time");
  if (indices && indices->size() == 1) set_element(list, (*indices)[0], value, target);
  return true;
}

// ---- Dicts

Val Checker::update_dict(const Val& object, const Expr& target, const std::vector<Argument>& args, Loc loc) {
  const bool is_dict = get_host<DictObject>(object);
  if (!is_dict && (target.kind != Expr::Kind::Name || !frame_->scope.contains(target.text)))
    return error(loc, "'update' is followed on dicts that a function made itself only", "return the dict");
  const Val dict = is_dict ? object : Val(dsl::HostRef(dict_of(object)));  // a copy of a launch's arguments
  if (!is_dict) bind(target.text, dict, target.loc);
  for (const Argument& a : args) {
    const auto other = dict_of(a.value);
    if (a.name.empty() && !other) return error(a.loc, "update() is evaluated of dicts and keyword arguments");
    if (a.name.empty())
      join_dict(dict, a.value, target);
    else
      set_item(dict, a.name, a.value, target);
  }
  return Val(dsl::None{});
}

void Checker::join_dict(const Val& object, const Val& other, const Expr& base) {
  const auto items = dict_of(other)->items;  // a copy: it may be the same dict
  for (const auto& [key, value] : items) set_item(object, key, value, base);
}

void Checker::set_item(const Val& object, Val key, Val item, const Expr& base) {
  const Val entry[] = {key, item};
  const std::optional<size_t> place = dict_in(object).place_of(key);
  change(
      object, entry, base, [&](const Val& changed) { dict_in(changed).set(std::move(key), std::move(item)); }, place);
}

// ---- Statements of host code

// Nothing where the target is no entry, poison after an error.
std::optional<Checker::Entry> Checker::host_entry(const Expr& target) {
  if (target.kind != Expr::Kind::Subscript || target.children.size() != 2) return std::nullopt;
  Entry entry{eval(*target.children[0]), Val()};
  if (entry.container.is_poison()) return entry;
  if (get_host<DictObject>(entry.container) || entry.container.is<dsl::TupleVal>())
    entry.key = host_key(entry.container, target);
  else
    error(target.loc, fmt::format("cannot assign to an element of {}", dsl::describe(entry.container)));
  return entry;
}

void Checker::set_entry(const Entry& entry, Val item, const Expr& target) {
  if (get_host<DictObject>(entry.container))
    set_item(entry.container, entry.key, std::move(item), *target.children[0]);
  else
    set_element(entry.container, entry.key, std::move(item), target);
}

bool Checker::host_assign_item(const Expr& target, const Val& item) {
  const std::optional<Entry> entry = host_entry(target);
  if (!entry) return false;
  if (entry->key.is_poison() || item.is_poison()) return lost_ = true;
  set_entry(*entry, item, target);
  return true;
}

// What stands between the brackets for a list or dict.
Val Checker::host_key(const Val& object, const Expr& target) {
  if (get_host<DictObject>(object)) return eval(*target.children[1]);
  const auto indices = eval_index(target);
  if (!indices) return Val();
  if (indices->size() == 1) return (*indices)[0];
  return error(target.loc, "a list's elements are assigned one at a time");
}

// d[key] += value: the container, the key and the value, in this order.
bool Checker::host_augment_item(const Stmt& s) {
  const Expr& target = *s.targets[0];
  const std::optional<Entry> entry = host_entry(target);
  if (!entry) return false;
  const auto& [object, key] = *entry;
  if (key.is_poison()) return lost_ = true;
  const auto* dict = get_host<DictObject>(object);
  sema_.at(target.loc);
  const Val* found = dict ? dict->find(key) : nullptr;
  if (dict && !found) return error(target.children[1]->loc, fmt::format("a dict has no '{}'", dsl::text_of(key))), true;
  const Val before = found ? *found : dsl::subscript(sema_, object, {key});
  const Val value = before.is_poison() ? Val() : eval(*s.value);
  if (value.is_poison()) return lost_ = true;
  if (augment_in_place(before, s.text, value, target)) return true;
  Val item = eval_binary(s.text, before, value, s.loc);
  if (item.is_poison()) return lost_ = true;
  set_entry(*entry, std::move(item), target);
  return true;
}

// names |= {...}, xs += [...]
bool Checker::host_augment_in_place(const Stmt& s) {
  const Expr& target = *s.targets[0];
  const bool is_name = target.kind == Expr::Kind::Name;
  if (is_name ? !frame_->scope.contains(target.text) : target.kind != Expr::Kind::Attribute) return false;
  const Val object = eval(target);
  if (get_host<SetObject>(object)) return lost_ = error(s.loc, "a set does not change here", "x = x | y").is_poison();
  if (!get_host<DictObject>(object) && !get_list(object)) return false;
  const Val value = eval(*s.value);
  if (value.is_poison()) return lost_ = true;
  if (augment_in_place(object, s.text, value, target)) return true;
  error(s.loc, fmt::format("'{}=' is not evaluated for {}", s.text, dsl::describe(object)));
  return true;
}

bool Checker::augment_in_place(const Val& object, std::string_view op, const Val& value, const Expr& base) {
  if (get_host<DictObject>(object) && op == "|") {
    if (dict_of(value))
      join_dict(object, value, base);
    else
      error(base.loc, fmt::format("a dict takes the entries of a dict, found {}", dsl::describe(value)));
    return true;
  }
  if (!get_list(object)) return false;
  if (op == "+") {
    if (auto more = items_for(object, value, base.loc)) extend_list(object, std::move(*more), base);
    return true;
  }
  if (op != "*") return false;
  const Val repeated = eval_binary(op, object, value, base.loc);
  if (repeated.is<dsl::TupleVal>())
    change(object, *repeated.as<dsl::TupleVal>().items, base,
           [&](const Val& changed) { items_of(changed) = *repeated.as<dsl::TupleVal>().items; });
  return true;
}

}  // namespace tegula::language
