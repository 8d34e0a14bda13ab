// A check of PTX: each register is set before it is read, on every path. The emulator does not run what the back end
// makes of a kernel for GPUs, and assemblers take what nothing has set as any value.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tegula::ptx {

struct Statement {
  std::string text;
  size_t line = 0;
  int guard = -1;  ///< the register under whose value it is, or under whose opposite
  bool negated = false;
  std::vector<int> reads, sets;  ///< registers, by their numbers in the function
  std::map<int, bool> chosen;    ///< registers of `reads` that are read under the predicate `choice`, or its opposite
  int choice = -1;
  std::vector<size_t> targets;  ///< statements to which it branches
  bool is_atomic = false;       ///< an atomic operation, which gives nothing where its mask does not hold
  bool packs = false;           ///< puts registers side by side in one
  bool ends = false;            ///< what stands behind it does not follow
};

struct Function {
  std::string name;
  std::vector<std::string> registers;
  std::vector<int> given;  ///< registers that are its parameters
  std::vector<Statement> statements;
};

/// The functions of a module, as far as registers and branches go.
class Reader {
 public:
  explicit Reader(std::string_view ptx) : ptx_(ptx) {}

  std::vector<Function> read() {
    while (next()) {
      if (token_ != ".entry" && token_ != ".func") continue;
      Function f;
      function_ = &f;
      scopes_.assign(1, {}), open_.assign(1, 0);
      while (next() && token_ != "{" && token_ != ";") {
        if (f.name.empty() && is_name(token_) && parentheses_ == 0) f.name = token_;
        if (token_[0] == '%') f.given.push_back(declare(token_));
      }
      if (token_ == ";") continue;  // declared
      read_block();
      add_sums();
      resolve();
      functions_.push_back(std::move(f));
    }
    return std::move(functions_);
  }

 private:
  struct Scope {
    std::map<std::string, int, std::less<>> registers;
    std::map<std::string, size_t, std::less<>> labels;
  };
  struct Branch {
    size_t from;
    std::vector<std::string> labels;
    std::vector<size_t> scopes;  ///< from the outermost on
  };

  static bool is_name(std::string_view token) { return std::isalpha(token[0]) || token[0] == '_' || token[0] == '$'; }
  static bool is_part_of_name(char c) { return std::isalnum(c) || c == '_' || c == '$' || c == '%'; }

  // Sets token_ to the next one: a name with its dots, a number, or a character.
  bool next() {
    while (at_ < ptx_.size()) {
      const std::string_view rest = ptx_.substr(at_);
      if (rest.starts_with("//"))
        skip("\n", 0);
      else if (rest.starts_with("/*"))
        skip("*/", 2);
      else if (rest[0] == '"')
        ++at_, skip("\"", 1);
      else if (std::isspace(rest[0]))
        line_ += rest[0] == '\n', ++at_;
      else
        break;
    }
    if (at_ >= ptx_.size()) return false;
    size_t end = at_ + 1;
    const bool is_word = is_part_of_name(ptx_[at_]) || ptx_[at_] == '.';
    while (is_word && end < ptx_.size() &&
           (is_part_of_name(ptx_[end]) || ptx_[end] == '.' || ptx_.substr(end, 2) == "::"))
      end += ptx_[end] == ':' ? 2 : 1;
    token_ = ptx_.substr(at_, end - at_);
    parentheses_ += (token_ == "(") - (token_ == ")");
    at_ = end;
    return true;
  }
  void skip(std::string_view to, size_t behind) {
    const size_t end = std::min(ptx_.find(to, at_), ptx_.size() - behind);
    line_ += size_t(std::count(ptx_.begin() + ptrdiff_t(at_), ptx_.begin() + ptrdiff_t(end), '\n'));
    at_ = end + behind;
  }

  int declare(const std::string& name) {
    function_->registers.push_back(name);
    return scopes_[open_.back()].registers[name] = int(function_->registers.size()) - 1;
  }
  std::optional<int> find(std::string_view name) const {
    for (auto scope = open_.rbegin(); scope != open_.rend(); ++scope) {
      const auto& known = scopes_[*scope].registers;
      if (const auto it = known.find(name); it != known.end()) return it->second;
    }
    return std::nullopt;
  }

  // Behind its brace.
  void read_block() {
    scopes_.push_back({});
    open_.push_back(scopes_.size() - 1);
    while (next() && token_ != "}") {
      if (token_ == "{")
        read_block();
      else if (token_ == ".reg")
        read_registers();
      else if (token_ == ".loc" || token_ == ".file")
        skip("\n", 0);
      else if (token_ != ";")
        read_statement();
    }
    open_.pop_back();
  }

  // .reg .b32 %r<8>, t;
  void read_registers() {
    std::string name;
    while (next() && token_ != ";") {
      if (token_[0] == '.' || token_ == ",") continue;
      if (token_ != "<") {
        name = token_;
        declare(name);
        continue;
      }
      next();
      const int count = std::stoi(token_);
      for (int i = 0; i < count; ++i) declare(name + std::to_string(i));
      next();  // >
    }
  }

  void read_statement() {
    Statement s;
    s.line = line_;
    std::vector<std::string> tokens{token_};
    const size_t begin = at_ - token_.size();
    while (token_ != ";" && next()) {
      if (tokens.size() == 1 && token_ == ":") {
        scopes_[open_.back()].labels[tokens[0]] = function_->statements.size();
        label_ = tokens[0];
        return;
      }
      tokens.push_back(token_);
    }
    s.text = std::string(ptx_.substr(begin, at_ - begin));
    size_t first = 0;
    if (tokens[0] == "@") {
      s.negated = tokens[1] == "!";
      first = s.negated ? 3 : 2;
      if (const auto guard = find(tokens[first - 1])) s.guard = *guard, s.reads.push_back(*guard);
    }
    const std::string operation = tokens[first];
    const std::vector<std::string> operands(tokens.begin() + ptrdiff_t(first) + 1, tokens.end());
    s.is_atomic = operation.starts_with("atom.");
    s.packs = operation.starts_with("prmt.") || (operation.starts_with("mov.") && s.text.find('{') != s.text.npos);
    if (operation == ".branchtargets") tables_[label_] = operands;
    if (operation[0] == '.') return;
    read_operands(operation, operands, s);
    if (operation.starts_with("selp.") && s.sets.size() == 1) read_choice(operands, s);
    if (operation == "bra" || operation.starts_with("bra.") || operation.starts_with("brx.")) {
      branches_.push_back({function_->statements.size(), operands, open_});
      s.ends = s.guard < 0;
    }
    if (s.guard < 0 &&
        (operation == "ret" || operation.starts_with("ret.") || operation == "exit" || operation == "trap"))
      s.ends = true;
    function_->statements.push_back(std::move(s));
  }

  // What an instruction sets is its first operand, unless that is an address: registers in braces, or a value and a
  // predicate with a bar between.
  void read_operands(const std::string& operation, const std::vector<std::string>& operands, Statement& s) {
    static const std::set<std::string, std::less<>> kWithout = {
        "bar",   "barrier", "bra",       "brx",     "ret",   "exit",       "trap",
        "fence", "membar",  "nanosleep", "pmevent", "brkpt", "setmaxnreg", "griddepcontrol"};
    const std::string_view stem = std::string_view(operation).substr(0, operation.find('.'));
    bool sets = !kWithout.contains(stem) && !operands.empty() && operands[0] != "[";
    if (stem == "bar" || stem == "barrier") sets = operation.find(".red.") != operation.npos;
    if (stem == "call") sets = operands[0] == "(";
    const bool multiplies = operation.starts_with("wgmma.mma_async");
    int depth = 0, place = 0;
    for (const std::string& token : operands) {
      depth += (token == "{" || token == "(" || token == "[") - (token == "}" || token == ")" || token == "]");
      if (token == "," && depth == 0) sets = false, ++place;
      const auto r = find(std::string_view(token).substr(0, token.find('.')));
      if (!r) continue;
      if (sets) s.sets.push_back(*r);
      if (!sets) s.reads.push_back(*r);
      if (multiplies && place == 3) products_.push_back({function_->statements.size(), *r});
    }
  }

  // Of selp D, A, B, P: A is read where P holds, B where it does not.
  void read_choice(const std::vector<std::string>& operands, Statement& s) {
    const auto choice = find(operands[operands.size() - 2]);
    if (!choice) return;
    s.choice = *choice;
    size_t place = 0;
    for (const std::string& token : operands) {
      place += token == ",";
      if (const auto r = find(token); r && *r != *choice && (place == 1 || place == 2))
        if (!s.chosen.try_emplace(*r, place == 2).second) s.chosen.erase(*r);  // either one
    }
  }

  // A product of warpgroups reads its sums where a predicate holds. Where that is not always so, nobody knows.
  void add_sums() {
    std::set<int> varying;
    for (const Statement& s : function_->statements)
      if (!s.text.starts_with("mov.pred") || !s.text.ends_with("-1;")) varying.insert(s.sets.begin(), s.sets.end());
    for (const auto& [at, adds] : products_) {
      Statement& s = function_->statements[at];
      if (!varying.contains(adds)) s.reads.insert(s.reads.end(), s.sets.begin(), s.sets.end());
    }
    products_.clear();
  }

  // Branches find their labels in the blocks around them.
  void resolve() {
    for (const Branch& branch : branches_) {
      std::vector<std::string> labels = branch.labels;
      for (const std::string& name : branch.labels)
        if (const auto table = tables_.find(name); table != tables_.end())
          labels.insert(labels.end(), table->second.begin(), table->second.end());
      for (const std::string& name : labels)
        for (auto scope = branch.scopes.rbegin(); scope != branch.scopes.rend(); ++scope)
          if (const auto it = scopes_[*scope].labels.find(name); it != scopes_[*scope].labels.end()) {
            function_->statements[branch.from].targets.push_back(it->second);
            break;
          }
    }
    branches_.clear(), tables_.clear();
  }

  std::string_view ptx_;
  size_t at_ = 0, line_ = 1;
  std::string token_;
  int parentheses_ = 0;
  std::vector<Function> functions_;
  Function* function_ = nullptr;
  std::vector<Scope> scopes_;
  std::vector<size_t> open_;
  std::vector<Branch> branches_;
  std::vector<std::pair<size_t, int>>
      products_;  ///< of warpgroups, and the predicates under which they read their sums
  std::map<std::string, std::vector<std::string>> tables_;
  std::string label_;  ///< the last one
};

/// Which registers a function has set where. Those that an instruction under a predicate sets count as set for
/// instructions under the same one, as long as nothing sets it anew; for the others too if they were before, or another
/// instruction sets them under its opposite. A register that nothing sets may be packed beside others: the back end's
/// way to say that a part of a word has no use.
class Registers {
 public:
  explicit Registers(const Function& function, bool merged_too = true)
      : f_(function), begins_(function.statements.size() + 1) {
    for (const Statement& s : f_.statements)
      for (const size_t target : s.targets) begins_[target] = true;
    Known first{std::vector<uint64_t>(f_.registers.size() / 64 + 1), {}};
    for (const int r : f_.given) first.add(r);
    for (const Statement& s : f_.statements)
      for (const int r : s.sets)
        if (!are_set_.insert(r).second && !merged_too) first.add(r);
    if (!f_.statements.empty()) known_.emplace(0, std::move(first));
    for (std::set<size_t> open{0}; !open.empty() && !f_.statements.empty();) {
      const size_t block = *open.begin();
      open.erase(open.begin());
      walk(
          block,
          [&](const Statement& s, const Known& here) {
            for (const size_t target : s.targets) meet(target, here, open);
          },
          [&](size_t behind, const Known& here) { meet(behind, here, open); });
    }
  }

  /// A line for each place that reads a register too early: of a register the first one, and at most `most`.
  std::vector<std::string> read_too_early(size_t most) const {
    std::vector<std::string> found;
    std::set<int> told;
    for (const auto& [block, known] : known_)
      walk(
          block, [](const Statement&, const Known&) {}, [](size_t, const Known&) {},
          [&](const Statement& s, int r) {
            if (found.size() < most && told.insert(r).second)
              found.push_back(fmt::format("{}, line {}: {} may be read before it is set: {}", f_.name, s.line,
                                          f_.registers[size_t(r)], s.text));
          });
    return found;
  }

 private:
  using Guard = std::pair<int, bool>;
  struct Known {
    std::vector<uint64_t> set;
    std::map<int, Guard> guarded;  ///< set under a predicate
    bool has(int r) const { return set[size_t(r) / 64] >> (size_t(r) % 64) & 1; }
    void add(int r) { set[size_t(r) / 64] |= uint64_t{1} << (size_t(r) % 64); }
  };

  static bool is_set(const Statement& s, int r, const Known& known) {
    if (known.has(r)) return true;
    const auto it = known.guarded.find(r);
    if (it == known.guarded.end()) return false;
    const auto chosen = s.chosen.find(r);
    return (s.guard >= 0 && it->second == Guard{s.guard, s.negated}) ||
           (chosen != s.chosen.end() && it->second == Guard{s.choice, chosen->second});
  }

  static void apply(const Statement& s, Known& known) {
    const bool anyhow = s.guard < 0 || s.is_atomic;
    for (const int r : s.sets) {
      std::erase_if(known.guarded, [&](const auto& entry) { return entry.second.first == r; });
      const auto before = known.guarded.find(r);
      const bool otherwise = before != known.guarded.end() && before->second == Guard{s.guard, !s.negated};
      if (anyhow || otherwise)
        known.add(r);
      else if (!known.has(r))
        known.guarded[r] = {s.guard, s.negated};
    }
  }

  // What is known at `block` is what all that lead to it know.
  void meet(size_t block, const Known& other, std::set<size_t>& open) {
    const auto [it, is_new] = known_.try_emplace(block, other);
    Known& into = it->second;
    bool changed = is_new;
    for (size_t i = 0; i < into.set.size(); ++i) {
      changed |= (into.set[i] & ~other.set[i]) != 0;
      into.set[i] &= other.set[i];
    }
    changed |= std::erase_if(into.guarded, [&](const auto& entry) {
                 const auto there = other.guarded.find(entry.first);
                 return there == other.guarded.end() || there->second != entry.second;
               }) > 0;
    if (changed) open.insert(block);
  }

  // Goes over a block with what is known ahead of each statement (behind it where it branches).
  template <class Branch, class Behind>
  void walk(size_t block, Branch branch, Behind behind) const {
    walk(block, branch, behind, [](const Statement&, int) {});
  }
  template <class Branch, class Behind, class Early>
  void walk(size_t block, Branch branch, Behind behind, Early early) const {
    Known here = known_.at(block);
    for (size_t i = block; i < f_.statements.size(); ++i) {
      if (i > block && begins_[i]) return behind(i, here);
      const Statement& s = f_.statements[i];
      for (const int r : s.reads)
        if (!is_set(s, r, here) && !(s.packs && !are_set_.contains(r))) early(s, r);
      apply(s, here);
      branch(s, here);
      if (s.ends) return;
    }
  }

  const Function& f_;
  std::set<int> are_set_;          ///< anywhere
  std::vector<bool> begins_;       ///< statements that begin a block
  std::map<size_t, Known> known_;  ///< where blocks begin that are reached
};

/// Registers of the module that may be read before they are set: a line each, the first `most`; empty if there are
/// none. Registers that several instructions set may be left out: those are values that branches merge, and LLVM merges
/// one with nothing where it knows more of the ways than their branches tell, as at the end of an unrolled loop.
inline std::string read_too_early(std::string_view ptx, size_t most = 4, bool merged_too = true) {
  std::string lines;
  for (const Function& f : Reader(ptx).read())
    for (const std::string& line : Registers(f, merged_too).read_too_early(most)) lines += line + "\n";
  return lines;
}

}  // namespace tegula::ptx
