// Iterators of host code: what zip(), map(), generators and their kin give. Their items are made at once, where Python
// makes them when they are asked for: an error wherever that could make a difference.
#include <fmt/format.h>

#include <algorithm>

#include "dsl/language/checker_impl.h"
#include "dsl/language/host_values.h"
#include "dsl/language/source_file.h"

namespace tegula::language {

Val Checker::make_iterator(Val items, std::vector<Val> sources, bool once, bool in_order) {
  const auto* tuple = items.get_if<dsl::TupleVal>();
  if (!tuple || !host_) return items;
  if (iterators_.size() >= most_iterators_) {
    std::erase_if(iterators_,
                  [](const auto& i) { return i.second.self.template as<dsl::TupleVal>().items.use_count() == 1; });
    most_iterators_ = std::max<size_t>(64, 2 * iterators_.size());
  }
  Iterator made{.self = items, .once = once, .in_order = in_order, .number = ++iterators_made_};
  for (const Val& source : sources) {
    if (is_changeable(source)) made.sources.push_back(source);
    const auto inner = iterators_.find(identity_of(source));
    if (inner == iterators_.end()) continue;
    made.sources.insert(made.sources.end(), inner->second.sources.begin(), inner->second.sources.end());
    made.in_order = made.in_order && inner->second.in_order;
  }
  iterators_[tuple->items.get()] = std::move(made);
  return items;
}

Val Checker::make_late_iterator(Val items, std::vector<Val> sources, NameSet names) {
  if (!items.is<dsl::TupleVal>() || !host_) return items;
  const auto& made = items.as<dsl::TupleVal>().items;
  // Names that are the module's, those of the functions that are called included.
  const NameSet of_module = file_->plan().reached(names);
  for (auto& [key, run] : runs_) {
    if (run.is_finished || run.file != file_ || of_module.empty()) continue;
    for (const std::string& name : of_module)
      if (const auto it = run.frame.scope.find(name); it != run.frame.scope.end()) sources.push_back(it->second.value);
    run.frame.readers.push_back({.names = of_module, .iterator = made});
  }
  std::erase_if(names, [&](const std::string& name) { return !frame_->scope.contains(name); });
  for (const std::string& name : names) sources.push_back(frame_->scope.find(name)->second.value);
  if (!names.empty()) frame_->readers.push_back({.names = std::move(names), .iterator = made});
  return make_iterator(std::move(items), std::move(sources), true, false);
}

bool Checker::is_iterator(const Val& v) const {
  const auto found = iterators_.find(identity_of(v));
  return found != iterators_.end() && found->second.once;
}

bool Checker::is_view(const Val& v) const { return iterators_.contains(identity_of(v)); }

bool Checker::may_iterate(const Val& items, bool starts, Loc loc) {
  const auto found = iterators_.find(identity_of(items));
  if (found == iterators_.end()) return true;
  Iterator& iterator = found->second;
  if (starts && iterator.once && late_.frame && iterator.number <= late_.since && !late_.own.contains(found->first)) {
    error(loc,
          "an iterator that is there already is asked while another one makes its items, in Python when those are "
          "asked for",
          "list(...) keeps them");
    return false;
  }
  const bool has_begun = starts && iterator.once && iterator.state != Iterator::State::Fresh;
  if (!has_begun && !(starts ? iterator.changed : iterator.changed_ahead)) {
    if (starts && iterator.once) iterator.state = Iterator::State::Partly, ++host_changes_;
    return true;
  }
  error(loc,
        has_begun ? "an iterator, as zip() and map() give, has its items once, and another has begun with them"
                  : "a list or dict changes before an iterator over it has given its items",
        "list(...) keeps them");
  return false;
}

Val Checker::use(const Val& items, Loc loc, Use how) {
  const auto found = host_ ? iterators_.find(identity_of(items)) : iterators_.end();
  if (found == iterators_.end()) return items;
  if (found->second.once && found->second.state == Iterator::State::UsedUp) return dsl::make_tuple({});
  if (!may_iterate(items, true, loc)) return Val();
  if (how == Use::All) found->second.state = Iterator::State::UsedUp;
  return items;
}

std::optional<std::vector<Val>> Checker::iterate(const Val& v, Loc loc, Use how) {
  const Val items = use(v, loc, how);
  if (const auto* tuple = items.get_if<dsl::TupleVal>()) return *tuple->items;
  if (const auto* set = get_host<SetObject>(items)) {
    if (set->items.items.size() > 1) {
      error(loc, "the order of a set is not followed", "sorted(x) has one");
      return std::nullopt;
    }
    return set->values();
  }
  if (const auto dict = dict_of(items)) {
    std::vector<Val> keys;
    for (const auto& [key, value] : dict->items) keys.push_back(key);
    return keys;
  }
  if (!v.is_poison() && !items.is_poison())
    error(loc, fmt::format("expected a list, a tuple, a range or a dict, found {}", dsl::describe(v)),
          v.is_value() && v.value()->type.is_tile()
              ? "over the elements of a tile go tl.sum(x, axis), tl.max(x, axis), ..."
              : "");
  return std::nullopt;
}

bool Checker::for_each(const Val& items, Loc loc, const std::function<bool(const Val&)>& element) {
  const auto* list = items.get_if<dsl::TupleVal>();
  const auto dict = get_host<DictObject>(items);
  if (!list && !dict) {
    const auto others = iterate(items, loc);
    return others && std::all_of(others->begin(), others->end(), element);
  }
  const Val asked = use(items, loc, Use::Later);
  if (asked.is_poison()) return false;
  if (identity_of(asked) != identity_of(items)) return true;  // it has been used up
  const auto found = iterators_.find(identity_of(items));
  Iterator* iterator = found == iterators_.end() ? nullptr : &found->second;
  const size_t size = list ? 0 : dict->items.size(), given = iterator ? iterator->given : 0;
  bool ok = true;
  for (size_t i = 0; ok && i < (list ? list->items->size() : size); ++i) {
    if (iterator) iterator->given = std::min(given, i + 1);
    const Val item = list ? (*list->items)[i] : dict->items[i].first;
    ok = element(item) && may_iterate(items, false, loc);
    if (!ok || list || dict->items.size() == size) continue;
    error(loc, "the dict gets other keys while a loop runs over them");
    ok = false;
  }
  if (iterator) iterator->given = given;
  if (iterator && ok && iterator->once) iterator->state = Iterator::State::UsedUp;
  return ok;
}

}  // namespace tegula::language
