#include "codegen/lower/hw.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "codegen/lower/llvm_headers.h"
#include "codegen/product/plan.h"
#include "runtime/base/check.h"

namespace tegula::lower {

namespace {

HwType parse_type(std::string_view text) {
  static const std::pair<std::string_view, HwType> names[] = {
      {"void", HwType::Void}, {"i1", HwType::I1},        {"i16", HwType::I16},   {"i32", HwType::I32},
      {"i64", HwType::I64},   {"f16", HwType::F16},      {"bf16", HwType::BF16}, {"f32", HwType::F32},
      {"f64", HwType::F64},   {"p1", HwType::GlobalPtr}, {"site", HwType::Site}, {"imm", HwType::Immediate},
  };
  for (auto& [name, type] : names)
    if (name == text) return type;
  TEGULA_UNREACHABLE("hw.def: unknown type '{}'", text);
}

// "i32 * 4" -> (I32, 4); "i32" -> (I32, 0)
std::pair<HwType, int> parse_repeat(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  size_t star = text.find(" * ");
  if (star == std::string_view::npos) return {parse_type(text), 0};
  return {parse_type(text.substr(0, star)), std::stoi(std::string(text.substr(star + 3)))};
}

}  // namespace

HwInfo make_hw_info(std::string name, std::string body, std::string signature_text, Feature feature, unsigned effects,
                    std::string assembly, std::string constraints) {
  HwInfo info{std::move(name), std::move(body), std::move(signature_text), HwType::Void,          0, {}, 0,
              feature,         effects,         std::move(assembly),       std::move(constraints)};
  const std::string_view signature = info.signature;
  size_t open = signature.find('(');
  std::string_view result = signature.substr(0, open);
  if (result.front() == '{') result = result.substr(1, result.size() - 2);
  std::tie(info.result, info.result_count) = parse_repeat(result);
  std::string_view args = signature.substr(open + 1, signature.size() - open - 2);
  while (!args.empty()) {
    size_t comma = args.find(',');
    std::string_view arg = args.substr(0, comma);
    arg.remove_prefix(std::min(arg.find_first_not_of(' '), arg.size()));
    if (!std::isdigit(arg[0])) {  // a number is for the emulator
      auto [type, count] = parse_repeat(arg);
      if (type == HwType::Immediate)
        ++info.num_immediates;
      else
        info.args.insert(info.args.end(), std::max(count, 1), type);
    }
    args = comma == std::string_view::npos ? std::string_view() : args.substr(comma + 1);
  }
  return info;
}

const std::string& HwInfo::assembly_for(const Target& target) const {
  for (size_t i = assembly_on.size(); i-- > 0;)
    if (target.has(assembly_on[i].first)) return assembly_on[i].second;
  return assembly;
}

namespace {

llvm::Type* llvm_type(llvm::LLVMContext& c, HwType type) {
  switch (type) {
    case HwType::Void:
      return llvm::Type::getVoidTy(c);
    case HwType::I1:
      return llvm::Type::getInt1Ty(c);
    case HwType::I16:
      return llvm::Type::getInt16Ty(c);
    case HwType::I32:
    case HwType::Site:
      return llvm::Type::getInt32Ty(c);
    case HwType::I64:
      return llvm::Type::getInt64Ty(c);
    case HwType::F16:
      return llvm::Type::getHalfTy(c);
    case HwType::BF16:
      return llvm::Type::getBFloatTy(c);
    case HwType::F32:
      return llvm::Type::getFloatTy(c);
    case HwType::F64:
      return llvm::Type::getDoubleTy(c);
    case HwType::GlobalPtr:
      return llvm::PointerType::get(c, 1);
    case HwType::Immediate:
      break;
  }
  TEGULA_UNREACHABLE("HwType {}", int(type));
}

}  // namespace

namespace {

/// The row of hw.def of that name.
std::optional<HwInfo> row_of_table(std::string_view name) {
  struct Row {
    std::string_view name;
    const char* signature;
    Feature feature;
    unsigned effects;
    const char *assembly, *constraints;
  };
  static constexpr Row kRows[] = {
#define TEGULA_HW(name, signature, feature, effects, assembly, constraints) \
  {#name, signature, Feature::feature, effects, assembly, constraints},
#include "codegen/lower/hw.def"
  };
  const Row* row = std::ranges::find(kRows, name, &Row::name);
  if (row == std::end(kRows)) return std::nullopt;
  const std::string text(name);
  HwInfo info = make_hw_info(text, text, row->signature, row->feature, row->effects, row->assembly, row->constraints);
#define TEGULA_HW(...)
#define TEGULA_HW_ON(on, feature, assembly)                                                      \
  static_assert(std::ranges::find(kRows, std::string_view(#on), &Row::name) != std::end(kRows)); \
  if (name == #on) info.assembly_on.emplace_back(Feature::feature, assembly);
#include "codegen/lower/hw.def"
  return info;
}

}  // namespace

const HwInfo* find_hw(std::string_view name) {
  // By their names, made when first asked for: a kernel uses few.
  static std::unordered_map<std::string_view, std::unique_ptr<const HwInfo>> rows;
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  if (auto it = rows.find(name); it != rows.end()) return it->second.get();
  std::optional<HwInfo> made = row_of_table(name);
  for (const ProductFamily* family : product_families())
    if (!made) made = family->hw_row(std::string(name));
  if (!made) return nullptr;
  auto row = std::make_unique<const HwInfo>(std::move(*made));
  const std::string_view key = row->name;
  TEGULA_CHECK(key == name, "row '{}' has the name '{}'", name, key);
  return rows.emplace(key, std::move(row)).first->second.get();
}

const HwInfo* hw_of_function(std::string_view function_name, std::string* modifiers) {
  if (!function_name.starts_with(kHwPrefix)) return nullptr;
  function_name.remove_prefix(kHwPrefix.size());
  size_t dot = function_name.find('.');
  if (modifiers) *modifiers = dot == std::string_view::npos ? "" : std::string(function_name.substr(dot));
  return find_hw(function_name.substr(0, dot));
}

std::optional<std::vector<uint32_t>> immediates(const HwInfo& info, std::string_view modifiers) {
  std::vector<uint32_t> values;
  if (info.num_immediates == 0) return values;
  const char *at = modifiers.data(), *end = at + modifiers.size();
  while (at != end && *at == '.') {
    uint32_t value;
    auto [next, error] = std::from_chars(at + 1, end, value);
    if (error != std::errc()) return std::nullopt;
    values.push_back(value);
    at = next;
  }
  if (at != end || int(values.size()) != info.num_immediates) return std::nullopt;
  return values;
}

llvm::Function* declare_hw(llvm::Module& module, const HwInfo& info, std::string_view modifiers) {
  std::string name = fmt::format("{}{}{}", kHwPrefix, info.name, modifiers);
  if (llvm::Function* f = module.getFunction(name)) return f;
  llvm::LLVMContext& c = module.getContext();
  llvm::Type* result = llvm_type(c, info.result);
  if (info.result_count) result = llvm::StructType::get(c, llvm::SmallVector<llvm::Type*>(info.result_count, result));
  llvm::SmallVector<llvm::Type*> args;
  for (HwType t : info.args) args.push_back(llvm_type(c, t));
  auto* f = llvm::Function::Create(llvm::FunctionType::get(result, args, false), llvm::GlobalValue::ExternalLinkage,
                                   name, module);
  f->setDoesNotThrow();
  // An instruction gives some bits, whatever its operands are. Saying so spares LLVM searching for a proof.
  if (!result->isVoidTy()) f->addRetAttr(llvm::Attribute::NoUndef);
  f->addFnAttr(llvm::Attribute::WillReturn);
  f->addFnAttr(llvm::Attribute::NoCallback);
  if (info.effects & Convergent) f->setConvergent();
  // A volatile access is never merged or moved: as good as a write.
  bool read = info.effects & Read, write = (info.effects & Write) || modifiers == ".volatile";
  if (!read && !write) {
    f->setDoesNotAccessMemory();
    if (!(info.effects & Convergent)) f->addFnAttr(llvm::Attribute::Speculatable);
  } else if (!write) {
    f->setOnlyReadsMemory();
  } else if (!read) {
    f->setOnlyWritesMemory();
  }
  return f;
}

}  // namespace tegula::lower
