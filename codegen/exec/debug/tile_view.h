// A value of a recording as a tile: its elements, who holds them, and as text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/exec/debug/recording.h"

namespace tegula {

/// Indices [begin, end) of each axis.
struct TileSlice {
  struct Axis {
    int64_t begin, end;
  };
  std::vector<Axis> axes;
};

/// A register of a thread.
struct TileHolder {
  uint32_t thread = 0, reg = 0;
};

class TileView {
 public:
  /// Both must outlive the view.
  TileView(const Recording& recording, const RecordedEvent& event);

  const RecordedPlace& place() const { return place_; }
  int64_t size() const { return int64_t(first_.size()); }
  /// "float32[64, 128]", "pointer<float32>[64]"
  std::string type() const;
  /// Whether the thread that holds the element has come here, and values were kept.
  bool has(int64_t element) const { return first_[size_t(element)] >= 0; }
  /// The element as a number: of a pointer its address.
  double number(int64_t element) const;
  /// As text, "?" where it is not known.
  std::string text(int64_t element) const;
  /// All who hold it, by threads and then registers.
  std::vector<TileHolder> holders(int64_t element) const;
  /// The first element whose copies in several threads differ; nothing if none does.
  std::optional<int64_t> torn() const;

  /// "[3, 0]" for a row-major index; "" for a scalar.
  std::string coordinates(int64_t element) const;
  int64_t element_at(const std::vector<int64_t>& coordinates) const;
  TileSlice all() const;
  /// Reads "[0:8, 3]"; "" is all. After an error nothing, and `why` has a sentence.
  std::optional<TileSlice> parse_slice(std::string_view text, std::string& why) const;

  /// The slice as matrices of aligned columns; large ones abbreviated unless `whole`.
  std::string matrix(const TileSlice& slice, bool whole) const;
  /// "from -3.1 to 2.4, mean 0.01, 2 not finite"; "" where nothing is known.
  std::string summary() const;

 private:
  /// An argument of the kernel that points to an array.
  struct Array {
    uint64_t begin;
    std::string name;
  };
  void find_arrays(const Recording& recording);
  /// "y+3", in elements of the pointer's type, by the array that the pointers are computed from, else by the one that
  /// begins last below the address.
  std::string address_text(uint64_t address) const;

  const RecordedPlace& place_;
  const RecordedEvent& event_;
  std::vector<Array> arrays_;   ///< where the value is of pointers
  std::vector<int64_t> first_;  ///< by elements: where in the event's bits, -1: nobody has come
};

}  // namespace tegula
