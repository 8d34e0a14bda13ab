#include "codegen/exec/llvm/written_functions.h"

#include <fmt/format.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Module.h>

#include <map>
#include <string_view>
#include <vector>

#include "codegen/lower/hw.h"
#include "runtime/base/check.h"

namespace tegula {

namespace {

constexpr const char* kWritten = "tegula-written-out";
/// The line that stands for a call: this, the function's name, and operands, the result first.
constexpr std::string_view kCall = "tegula.call ", kName = "tegula_written_";
/// Stands on both sides of an operand's number in a function's text.
constexpr char kOperand = '\1';

/// A call as a line of assembly takes about as long as two instructions of a body.
constexpr size_t kLeastCalls = 4, kLeastInstructions = 6;

char constraint_of(const llvm::Type* type) {
  if (type->isFloatTy()) return 'f';
  if (type->isDoubleTy()) return 'd';
  if (type->isIntegerTy(32)) return 'r';
  return type->isIntegerTy(64) ? 'l' : 0;
}

bool may_be_in_text(const llvm::Instruction& i) {
  if (llvm::isa<llvm::AllocaInst>(i)) return false;
  const auto* call = llvm::dyn_cast<llvm::CallBase>(&i);
  if (!call) return true;
  const llvm::Function* callee = call->getCalledFunction();
  return callee && (callee->isIntrinsic() || callee->getName().starts_with(llvm::StringRef(lower::kHwPrefix)));
}

bool can_be_written_out(const llvm::Function& f) {
  if (f.getNumUses() < kLeastCalls || f.getInstructionCount() < kLeastInstructions) return false;
  if (!f.doesNotAccessMemory() || !constraint_of(f.getReturnType())) return false;
  size_t returns = 0;
  for (const llvm::Argument& argument : f.args())
    if (!constraint_of(argument.getType())) return false;
  for (const llvm::Instruction& i : llvm::instructions(f)) {
    if (!may_be_in_text(i)) return false;
    returns += llvm::isa<llvm::ReturnInst>(i);
  }
  return returns == 1 &&
         llvm::all_of(f.users(), [](const llvm::User* user) { return llvm::isa<llvm::CallInst>(user); });
}

}  // namespace

bool write_out_calls_of(llvm::Function& function) {
  const bool can = can_be_written_out(function);
  if (can) function.addFnAttr(kWritten);
  return can;
}

size_t instructions_when_written(const llvm::Module& module) {
  size_t count = module.getInstructionCount();
  for (const llvm::Function& f : module)
    if (f.hasFnAttribute(kWritten)) count += f.getInstructionCount() * (f.getNumUses() - 1);
  return count;
}

void name_written_functions(llvm::Module& module) {
  unsigned number = 0;
  for (llvm::Function& f : module) {
    if (!f.hasFnAttribute(kWritten)) continue;
    f.setName(llvm::Twine(llvm::StringRef(kName)) + llvm::Twine(number++));
    std::string text = fmt::format("{}{}, $0", kCall, std::string_view(f.getName()));
    std::string constraints = fmt::format("={}", constraint_of(f.getReturnType()));
    for (const llvm::Argument& argument : f.args()) {
      text += fmt::format(", ${}", argument.getArgNo() + 1);
      constraints += fmt::format(",{}", constraint_of(argument.getType()));
    }
    auto* line = llvm::InlineAsm::get(f.getFunctionType(), text + ";", constraints, /*hasSideEffects=*/false);
    for (llvm::User* user : llvm::make_early_inc_range(f.users())) {
      auto* call = llvm::cast<llvm::CallInst>(user);
      llvm::IRBuilder<> b(call);
      llvm::CallInst* result = b.CreateCall(line, llvm::SmallVector<llvm::Value*>(call->args()));
      result->setDoesNotThrow();
      result->setDoesNotAccessMemory();
      call->replaceAllUsesWith(result);
      call->eraseFromParent();
    }
  }
}

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// A line of a body: registers are the block's own, what is read of parameters and written to the result are operands.
std::string line_of_text(std::string_view line, std::string_view function) {
  std::string out;
  const std::string parameter = fmt::format("[{}_param_", function);
  auto moved = [&](std::string_view from, std::string_view to) {  // ld.param.b32 -> mov.b32
    if (const size_t at = line.find(from); at != line.npos)
      out = fmt::format("\t{}{}", to, line.substr(at + from.size()));
    else
      out = line;
  };
  moved(line.find("ld.param") != line.npos ? "ld.param" : "st.param", "mov");
  if (const size_t at = out.find(parameter); at != out.npos) {
    const size_t end = out.find(']', at);
    const int number = std::stoi(out.substr(at + parameter.size()));
    out.replace(at, end + 1 - at, fmt::format("{0}{1}{0}", kOperand, number + 1));
  }
  constexpr std::string_view kResult = "[func_retval0]";
  if (const size_t at = out.find(kResult); at != out.npos)
    out.replace(at, kResult.size(), fmt::format("{0}0{0}", kOperand));
  for (size_t at = 0; (at = out.find('%', at)) != out.npos;) out.replace(at, 1, "w_");
  return out + "\n";
}

bool is_left_out(std::string_view line) {
  return line.starts_with("//") || line.starts_with("$L__func_") || line == "ret;";
}

/// The body of a function's text in braces.
std::string block_of(std::string_view body, std::string_view function) {
  std::string out = "{\n";
  while (!body.empty()) {
    const size_t end = body.find('\n');
    const std::string_view line = body.substr(0, end);
    body = end == body.npos ? std::string_view() : body.substr(end + 1);
    const size_t first = line.find_first_not_of(" \t");
    if (first == line.npos || is_left_out(line.substr(first))) continue;
    out += line_of_text(line, function);
  }
  return out + "\t}";
}

/// Cuts the functions out of the text.
std::map<std::string, std::string, std::less<>> take_bodies(std::string& ptx) {
  std::map<std::string, std::string, std::less<>> bodies;
  constexpr std::string_view kBegin = ".func ", kEnd = "\n}\n";
  for (size_t at = 0; (at = ptx.find(kBegin, at)) != ptx.npos;) {
    const size_t name = ptx.find(kName, at), open = ptx.find("\n{", at), end = ptx.find(kEnd, at);
    if (name == ptx.npos || name > open || open > end) {
      at += kBegin.size();
      continue;
    }
    const std::string function = ptx.substr(name, ptx.find('(', name) - name);
    bodies[function] = block_of(std::string_view(ptx).substr(open + 2, end - open - 2), function);
    ptx.erase(at, end + kEnd.size() - at);
  }
  return bodies;
}

/// The block with operands for their numbers.
void append_block(std::string& out, std::string_view block, const std::vector<std::string_view>& operands) {
  for (size_t at; (at = block.find(kOperand)) != block.npos;) {
    out += block.substr(0, at);
    size_t number = 0;
    for (++at; is_digit(block[at]); ++at) number = number * 10 + size_t(block[at] - '0');
    out += operands.at(number);
    block.remove_prefix(at + 1);
  }
  out += block;
}

}  // namespace

std::string with_written_functions(std::string ptx) {
  if (ptx.find(kCall) == ptx.npos) return ptx;
  const auto bodies = take_bodies(ptx);
  std::string out;
  size_t done = 0;
  for (size_t at = 0; (at = ptx.find(kCall, done)) != ptx.npos;) {
    out.append(ptx, done, at - done);
    const size_t end = ptx.find(';', at);
    std::string_view rest = std::string_view(ptx).substr(at + kCall.size(), end - at - kCall.size());
    std::vector<std::string_view> words;
    for (size_t comma; (comma = rest.find(", ")) != rest.npos; rest.remove_prefix(comma + 2))
      words.push_back(rest.substr(0, comma));
    words.push_back(rest);
    const auto body = bodies.find(words[0]);
    TEGULA_CHECK(body != bodies.end(), "no text of '{}'", words[0]);
    words.erase(words.begin());
    append_block(out, body->second, words);
    done = end + 1;
  }
  return out.append(ptx, done);
}

}  // namespace tegula
