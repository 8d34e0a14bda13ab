#include "codegen/exec/asm_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <mutex>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "codegen/exec/ptxas.h"
#include "codegen/lower/asm_block.h"
#include "runtime/base/error.h"

namespace tegula {

namespace {

/// A block of inline assembly, and the lines of the module that hold its text, counted from 1.
struct Block {
  std::string text, constraints;
  Loc loc;
  int first_line = 0, last_line = 0;
};

std::vector<Block> blocks_of(const ir::Func& func) {
  std::vector<Block> blocks;
  ir::walk(func.body, [&](const ir::Op& op) {
    if (op.opcode != ir::Opcode::InlineAsm && op.opcode != ir::Opcode::InlineAsmEffects) return;
    Block block{op.get(ir::attr::assembly), op.get(ir::attr::constraints), op.loc};
    const bool is_known = std::ranges::any_of(
        blocks, [&](const Block& known) { return known.text == block.text && known.constraints == block.constraints; });
    if (!is_known) blocks.push_back(std::move(block));
  });
  return blocks;
}

std::string_view type_of(char letter) {
  switch (letter) {
    case 'b':
      return "pred";
    case 'c':
    case 'h':
      return "b16";
    case 'l':
      return "b64";
    case 'f':
      return "f32";
    case 'd':
      return "f64";
    case 'q':
      return "b128";
    default:
      return "b32";
  }
}

std::string register_name(size_t operand) { return fmt::format("%operand{}", operand); }

/// The text with registers in place of $0, ${1}, ...; $$ is a dollar.
std::string with_registers(std::string_view text, const lower::AsmRegisters& registers) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '$' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    const bool braced = text[i + 1] == '{';
    size_t at = i + 1 + braced, number = 0;
    const size_t digits = at;
    while (at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])))
      number = number * 10 + size_t(text[at++] - '0');
    if (at == digits) {
      out += '$';
      i += text[i + 1] == '$';
      continue;
    }
    const size_t results = registers.results.size();
    const int tie =
        number >= results && number - results < registers.ties.size() ? registers.ties[number - results] : -1;
    out += register_name(tie >= 0 ? size_t(tie) : number);
    i = braced ? std::min(text.find('}', at), text.size() - 1) : at - 1;
  }
  return out;
}

/// The directives at the head of a module: version, target, size of addresses.
std::string head_of(std::string_view ptx) {
  std::string head;
  for (std::string_view directive : {".version ", ".target ", ".address_size "})
    if (const size_t at = ptx.find(directive); at != ptx.npos)
      head += fmt::format("{}\n", ptx.substr(at, ptx.find('\n', at) - at));
  return head;
}

/// A module with an entry for each block, which gets its place in it.
std::string module_of(std::string head, std::vector<Block>& blocks) {
  std::string module = std::move(head);
  for (size_t b = 0; b < blocks.size(); ++b) {
    const lower::AsmRegisters registers = lower::asm_registers(blocks[b].constraints);
    const std::string letters = registers.results + registers.arguments;
    module += fmt::format(".visible .entry block{}()\n{{\n", b);
    for (size_t i = 0; i < letters.size(); ++i)
      module += fmt::format(".reg .{} {};\n", type_of(letters[i]), register_name(i));
    const std::string text = with_registers(blocks[b].text, registers);
    blocks[b].first_line = int(std::count(module.begin(), module.end(), '\n')) + 1;
    blocks[b].last_line = blocks[b].first_line + int(std::count(text.begin(), text.end(), '\n'));
    module += text + "\nret;\n}\n";
  }
  return module;
}

std::string line_of(std::string_view text, int line) {
  for (; line > 0 && text.find('\n') != text.npos; --line) text.remove_prefix(text.find('\n') + 1);
  text = text.substr(0, text.find('\n'));
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  return std::string(text);
}

/// The line of a block that the assembler means, in words; of an error after it, such as a brace that is not closed,
/// the block.
std::string place_in(const Block& block, int line) {
  if (line > block.last_line) return fmt::format("'{}'", line_of(block.text, 0));
  const int within = line - block.first_line;
  return fmt::format("'{}'{}", line_of(block.text, within),
                     block.first_line == block.last_line ? "" : fmt::format(" in line {} of the assembly", within + 1));
}

void report(const std::vector<Block>& blocks, const std::string& log, Diagnostics& diags) {
  const std::regex pattern("line ([0-9]+); *(error|fatal) *: *([^\n]*)");
  for (std::sregex_iterator at(log.begin(), log.end(), pattern), end; at != end; ++at) {
    const int line = std::stoi((*at)[1]);
    const auto block =
        std::find_if(blocks.rbegin(), blocks.rend(), [&](const Block& b) { return b.first_line <= line; });
    if (block == blocks.rend()) continue;  // the head: a version or a target that this ptxas does not know
    diags.error(block->loc, fmt::format("the assembler refuses {}: {}", place_in(*block, line), (*at)[3].str()));
  }
}

}  // namespace

void check_inline_asm(const ir::Func& func, std::string_view ptx, std::string_view target, Diagnostics& diags) {
  static std::mutex mutex;
  static std::set<std::string> fine;  // modules that were taken
  std::vector<Block> blocks = blocks_of(func);
  if (blocks.empty()) return;
  const auto ptxas = find_ptxas();
  if (!ptxas) return;
  const std::string module = module_of(head_of(ptx), blocks);
  {
    std::lock_guard lock(mutex);
    if (fine.contains(module)) return;
  }
  try {
    const PtxasRun run = run_ptxas(*ptxas, module, std::string(target));
    if (run.status != 0) return report(blocks, run.log, diags);
  } catch (const FileError&) {  // no room for scratch files: the driver's assembler will look at it
    return;
  }
  std::lock_guard lock(mutex);
  fine.insert(module);
}

}  // namespace tegula
