// Entries of the kernel library as data: what the rows of kernels.def say, and calls checked against it. C++, the C
// interface and the Python file all come here.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "kernels/activation.h"
#include "kernels/tensor.h"
#include "runtime/device.h"

namespace tegula::kernels {

/// Every entry of the library, by its name.
enum class EntryId {
#define TEGULA_ENTRY(name, ...) name,
#include "kernels/kernels.def"
};

/// The value that a call gives for an operand; none stands for its default, or for what is left out.
class Operand {
 public:
  /// Number of a choice, in the order of its names.
  struct Choice {
    int64_t index;
    bool operator==(const Choice&) const = default;
  };
  using Value = std::variant<std::monostate, Tensor, int64_t, double, bool, Choice, std::string_view>;

  Operand() = default;
  Operand(const Tensor& t) {
    if (t.given()) value = t;
  }
  template <class T>
  Operand(const Matrix<T>& m) : Operand(Tensor(m)) {}
  template <class T>
  Operand(const Vector<T>& v) : Operand(Tensor(v)) {}
  Operand(bool b) : value(b) {}
  template <class T>
  requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) Operand(T i) : value(int64_t(i)) {}
  Operand(double f) : value(f) {}
  Operand(float f) : value(double(f)) {}
  /// Enumerations are choices in the order of their enumerators.
  template <class T>
  requires std::is_enum_v<T> Operand(T choice) : value(Choice{int64_t(choice)}) {}
  Operand(std::string_view text) : value(text) {}

  bool given() const { return value.index() != 0; }

  Value value;
};

/// What an entry says of one operand.
struct OperandInfo {
  enum class Kind { Tensor, Int, Float, Bool, Choice };
  struct Extent {
    int dim = -1;       ///< number of a named extent, or -1
    int64_t count = 0;  ///< of an extent without a name
  };

  std::string name;
  Kind kind = Kind::Tensor;
  bool written = false;
  bool alone = false;  ///< written while other programs still read: no other operand may be the same memory
  bool optional = false;
  bool any_strides = false;          ///< elements of a row need not lie side by side
  char variable = 0;                 ///< of the element type: equal in all operands that have it, of 16 bits for 'H';
                                     ///< 0: none
  std::vector<Elem> elems = {};      ///< other element types that it may have
  std::vector<Extent> extents = {};  ///< of a tensor
  std::vector<std::string> choices = {};
  std::optional<double> least = {}, most = {};  ///< bounds of a number
  Operand fallback = {};
};

class BoundCall;
/// How a launch of an entry's kernel is laid out; kernels/launch_rules.h.
struct LaunchRule;

/// A row of kernels.def.
struct Entry {
  const char* name;
  const char* formula;
  const char* signature;
  const char* file;  ///< the text that has its kernel
  const char* kernel;
  const char* fixed;  ///< values of the kernel's parameters: "CENTER=False bias_ptr=None"
  const LaunchRule* rule;
  /// What a call does in place of a launch of the kernel; null: nothing.
  void (*run)(Device& device, const BoundCall& call, StreamHandle stream);
  std::vector<OperandInfo> operands = {};
  std::vector<std::string> dims = {};  ///< names of extents

  int find_operand(std::string_view operand) const;  ///< -1: not there
  int find_dim(std::string_view dim) const;
};

/// All entries, in the order of EntryId.
std::span<const Entry> entries();
inline const Entry& entry(EntryId id) { return entries()[size_t(id)]; }
/// Throws LaunchError with the nearest name for one that is not there.
const Entry& find_entry(std::string_view name);

/// A call whose operands fit the entry.
class BoundCall {
 public:
  static constexpr size_t kMaxOperands = 24, kMaxDims = 12;

  /// Operands in the entry's order; those after the last one that is given have their defaults. Throws LaunchError for
  /// operands that do not fit: what was found, what was expected.
  BoundCall(const Entry& entry, std::span<const Operand> operands);

  const Entry& entry() const { return entry_; }
  /// Extents of dimension number `dim` of the entry.
  int64_t extent(int dim) const { return extents_[size_t(dim)]; }
  int64_t extent(std::string_view dim) const;
  /// The tensor that is operand number `i`, brought to the rank that the entry has; null if it was left out.
  const Tensor* tensor(size_t i) const { return std::get_if<Tensor>(&operands_[i].value); }
  const Tensor* tensor(std::string_view name) const;
  const Operand& operator[](size_t i) const { return operands_[i]; }
  int64_t integer(std::string_view name) const;
  double number(std::string_view name) const;
  bool flag(std::string_view name) const;
  int64_t choice(std::string_view name) const;
  const std::string& choice_name(std::string_view name) const;
  /// Whether an operand that is written is one that is read, too.
  bool in_place() const { return in_place_; }
  /// Whether nothing that is written has elements.
  bool empty() const;
  /// The operands of a call for `count` of the extent `dim` from `first` on: that of the tensors that begin with it.
  std::vector<Operand> part(std::string_view dim, int64_t first, int64_t count) const;

  [[noreturn]] void refuse(const std::string& why) const;

 private:
  void bind(size_t i, const Operand& given);
  void bind_tensor(size_t i, Tensor t);
  void bind_choice(size_t i, const Operand& given);
  void bind_number(size_t i, double value, const Operand& given);
  void bind_elem(const OperandInfo& info, const Tensor& t);
  void bind_extents(const OperandInfo& info, const Tensor& t);
  void check_memory(const OperandInfo& info, const Tensor& t) const;
  void settle_addresses();
  void check_sharing();
  size_t index_of(std::string_view name) const;

  const Entry& entry_;
  std::array<Operand, kMaxOperands> operands_;
  std::array<int64_t, kMaxDims> extents_;
  std::array<int, kMaxDims> extent_from_;  ///< the operand that gave it; -1: none yet
  std::array<int, 26> elem_from_;          ///< the operand that gave a variable's element type; -1: none yet
  bool in_place_ = false;
};

/// Checks the operands and runs the entry on the stream. Throws LaunchError, and what Kernel::launch throws.
void run(Device& device, const Entry& entry, std::span<const Operand> operands, StreamHandle stream);

/// The same from C++: run<EntryId::softmax>(device, stream, out, x).
template <EntryId id, class... Values>
void run(Device& device, StreamHandle stream, const Values&... values) {
  const std::array<Operand, sizeof...(Values)> operands{Operand(values)...};
  run(device, entry(id), operands, stream);
}

}  // namespace tegula::kernels
