// The rows of hw.def, and their declarations in an LLVM module.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/target/target.h"

namespace llvm {
class Function;
class Module;
}  // namespace llvm

namespace tegula::lower {

enum HwEffect : unsigned { Pure = 0, Read = 1, Write = 2, Convergent = 4 };

enum class HwType : uint8_t { Void, I1, I16, I32, I64, F16, BF16, F32, F64, GlobalPtr, Site, Immediate };

struct HwInfo {
  std::string name;
  std::string body;       ///< the emulator's, shared by the rows of a family
  std::string signature;  ///< as hw.def has it
  HwType result;
  int result_count;          ///< 0: a plain result of type `result`; n: a struct of n
  std::vector<HwType> args;  ///< repeats expanded, immediates left out
  int num_immediates;
  Feature feature;
  unsigned effects;
  std::string assembly;
  std::string constraints;
  std::vector<std::pair<Feature, std::string>> assembly_on{};  ///< where the target has the feature; the last counts

  const std::string& assembly_for(const Target& target) const;
};

/// A row from the columns of hw.def.
HwInfo make_hw_info(std::string name, std::string body, std::string signature, Feature feature, unsigned effects,
                    std::string assembly, std::string constraints);

/// The row of that name; null if there is none. Rows live as long as the process.
const HwInfo* find_hw(std::string_view name);

/// The layout of an operand `site`: the lowest kSiteBits bits index KernelImage::sites. For a load from global memory,
/// the bits above are a mask on the thread's index: in a thread with any of these bits set nothing depends on what it
/// loads, since another thread owns the element.
inline constexpr unsigned kSiteBits = 17;
inline constexpr uint32_t number_of_site(uint32_t site) { return site & ((1u << kSiteBits) - 1); }
inline constexpr bool is_load_used(uint32_t site, uint32_t thread) { return (site >> kSiteBits & thread) == 0; }

/// Prefix of all hardware functions in a module. A function's name is the prefix, the row's name, and the modifiers if
/// there are any, e.g. "tegula.hw.ld_global_b32.ca".
inline constexpr std::string_view kHwPrefix = "tegula.hw.";
/// Metadata of a call whose results are to be used up before the next such call of its block: registers have no room
/// for both.
inline constexpr const char* kWaveMetadata = "tegula.wave";

/// The row of a hardware function; null for other functions. `modifiers`, if not null, receives its modifiers (".ca",
/// or empty).
const HwInfo* hw_of_function(std::string_view function_name, std::string* modifiers = nullptr);

/// The immediates in the modifiers of a call of this row; nullopt if there are not as many as the row has.
std::optional<std::vector<uint32_t>> immediates(const HwInfo& info, std::string_view modifiers);

/// Declares a row in the module, unless it is declared already. Its attributes follow from the row's effects.
llvm::Function* declare_hw(llvm::Module& module, const HwInfo& info, std::string_view modifiers = {});

}  // namespace tegula::lower
