// What one program of a launch did, statement by statement, with the values that it gave to names: recorded by the
// emulator, thread by thread and register by register, of kernels that were compiled with debug=2.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/elem.h"
#include "runtime/device.h"

namespace tegula {

/// A place of the code that tells of something.
struct RecordedPlace {
  /// A statement begins; a name gets a value of the kernel, or one known at compile time; a store or an atomic
  /// operation is about to begin, with three places in a row: "pointers", "values" and, where there is one, "mask"; a
  /// function is called, whose parameters get their values next.
  enum class Kind : uint8_t { Statement, Assign, Constant, Store, Atomic, Call };
  Kind kind = Kind::Statement;
  std::string name;      ///< of a statement that of its function, empty in the kernel itself; of a call the function's
  std::string constant;  ///< the value, as Python's str() has it
  std::string file;
  int line = 0, column = 0;
  Elem elem = Elem::I32;
  bool pointer = false;
  std::string array;           ///< of pointers, the kernel's parameter that they are computed from; empty: not known
  std::vector<int64_t> shape;  ///< empty: a scalar
  std::string layout;          ///< of a tile, as LinearLayout::to_string() has it
  uint32_t registers = 0;      ///< a thread
  /// Row-major index of the element in register r of thread t: [t * registers + r]; kUnknown until the thread comes.
  std::vector<int32_t> elements;
  static constexpr int32_t kUnknown = -1;
};

/// One time that threads came to a place.
struct RecordedEvent {
  uint32_t place = 0;
  uint32_t arrived = 0;        ///< threads that came here
  std::vector<uint64_t> bits;  ///< as `elements`: floats as doubles, integers with 64 bits; empty: not kept
  std::vector<bool> has_bits;  ///< by threads
};

class Recording {
 public:
  /// `most_bytes`: of values; statements beyond are recorded without.
  explicit Recording(size_t most_bytes = size_t(1) << 30) : most_bytes_(most_bytes) {}

  struct Launch {
    std::string kernel;
    Grid program;  ///< its indices
    Grid grid;
    uint32_t threads = 0;  ///< of the program, those of all blocks of a cluster one after another
    uint32_t blocks = 1;
  };
  /// Forgets what was recorded.
  void begin(Launch launch);
  /// A thread tells of the next thing. The lines of `text` say what (lower_Watch); `pairs` hold an element and its bits
  /// for each of `count` registers.
  void add(uint32_t thread, const char* text, const uint64_t* pairs, uint32_t count);
  /// The launch ended early.
  void end(std::string error) { error_ = std::move(error); }

  const Launch& launch() const { return launch_; }
  const std::vector<RecordedPlace>& places() const { return places_; }
  const std::vector<RecordedEvent>& events() const { return events_; }
  const RecordedPlace& place_of(const RecordedEvent& event) const { return places_[event.place]; }
  /// Why the launch ended early; empty: it did not.
  const std::string& error() const { return error_; }
  /// The text of a file that places are in, as it was when the launch ran; empty: it could not be read.
  const std::string& source(const std::string& file) const;
  /// Threads that took another way through the statements than the first ones to come there.
  const std::vector<uint32_t>& strays() const { return strays_; }

  /// As bytes, and back. load() throws FileError for what is no recording; `name` is for its message.
  std::string save() const;
  static Recording load(const std::string& bytes, const std::string& name);

 private:
  uint32_t place_at(const char* text, uint32_t count);
  void keep(RecordedEvent& event, uint32_t thread, const uint64_t* pairs);

  size_t most_bytes_, bytes_ = 0;
  Launch launch_;
  std::string error_;
  std::vector<RecordedPlace> places_;
  std::vector<RecordedEvent> events_;
  std::map<std::string, std::string> sources_;  ///< by files
  std::vector<size_t> next_;                    ///< by threads: the event that they come to next
  std::vector<bool> stray_;
  std::vector<uint32_t> strays_;
  std::map<std::string, uint32_t, std::less<>> by_text_;
  std::map<std::pair<const char*, uint32_t>, uint32_t> by_address_;
};

}  // namespace tegula
