// The state of a Debugger, and what each of its commands does. debugger.cpp finds the command of a line;
// debugger_places.cpp moves through the recording, debugger_values.cpp shows what names hold.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/exec/debug/debugger.h"
#include "codegen/exec/debug/pictures.h"
#include "codegen/exec/debug/recording.h"
#include "codegen/exec/debug/tile_view.h"

namespace tegula {

class Debugger::Session {
 public:
  using Json = nlohmann::ordered_json;
  using Kind = RecordedPlace::Kind;

  explicit Session(const Recording& recording) : recording_(recording) {
    for (size_t i = 0; i < events().size(); ++i) {
      if (recording.place_of(events()[i]).kind == Kind::Statement) stops_.push_back(i);
      if (recording.place_of(events()[i]).kind == Kind::Call) calls_.insert(recording.place_of(events()[i]).name);
      all_threads_ = std::max(all_threads_, events()[i].arrived);
    }
  }

  DebuggerAnswer execute(std::string_view line);
  bool over = false;

 private:
  /// What a command is refused with.
  struct Refusal {
    std::string message;
  };
  /// A command's answer under way.
  struct Answer {
    std::string text;
    Json json = Json::object();
  };
  struct Command {
    const char *name, *alias, *arguments, *help;
    void (Session::*run)(const std::string& arguments, Answer& answer);
  };
  static const std::vector<Command> kCommands;
  static const Command& find(const std::string& name);
  static constexpr const char* kNothing =
      "nothing was recorded: that takes a launch with the option debug=2 whose grid has the program";

  // ---- Words of a command

  static std::string trimmed(std::string_view text);
  /// The first word; the rest stays in `text`, trimmed.
  static std::string next_word(std::string& text);
  static std::optional<int64_t> number_of(std::string_view text);
  /// A number from 1 on, or what stands for none.
  static int64_t count_of(const std::string& text, int64_t absent);

  // ---- Places

  const std::vector<RecordedEvent>& events() const { return recording_.events(); }
  const RecordedPlace& place(size_t event) const { return recording_.place_of(events()[event]); }
  /// The function whose statement is about to begin; empty: the kernel itself, or its end.
  std::string function() const { return at_ < stops_.size() ? place(stops_[at_]).name : ""; }
  /// The first event that a statement has not come to yet.
  size_t event_of(size_t stop) const { return stop < stops_.size() ? stops_[stop] : events().size(); }
  std::string source_line(const RecordedPlace& place);
  void tell_place(Answer& answer);
  void tell_given(size_t stop, Answer& answer);
  template <class Wanted>
  void go(int direction, Answer& answer, Wanted wanted);
  bool is_at_break(size_t stop) const;
  bool stores(size_t stop) const;

  // ---- Values

  /// "thread 37 (warp 1, lane 5)", of a cluster with the block ahead of it.
  std::string who(uint32_t thread) const;
  /// What the statement here stores, or else the last one that did: "@pointers", "@values", "@mask"; of its second
  /// store "@values2".
  size_t stored_event(const std::string& name) const;
  /// The latest event that gave the name a value: one of the function at hand, else of the kernel. Names of a function
  /// are those of its latest call. A Refusal where there is none.
  size_t value_event(const std::string& name) const;
  std::string function_of(const std::string& name) const;
  /// Splits "name[...]" or "name [...]"; the view is of the name's value.
  TileView tile(const std::string& arguments, std::string& name, std::string& index) const;
  static TileSlice slice_of(const TileView& tile, const std::string& index);
  void write_picture(const std::string& arguments, Answer& answer, decltype(&heat_map) draw);

  // ---- Commands

  void do_break(const std::string& arguments, Answer& answer);
  void do_delete(const std::string& arguments, Answer& answer);
  void do_continue(const std::string&, Answer& answer);
  void do_reverse(const std::string&, Answer& answer);
  void do_step(const std::string& arguments, Answer& answer);
  void do_back(const std::string& arguments, Answer& answer);
  void do_store(const std::string&, Answer& answer);
  void do_nan(const std::string&, Answer& answer);
  void do_goto(const std::string& arguments, Answer& answer);
  void do_where(const std::string&, Answer& answer);
  void do_list(const std::string& arguments, Answer& answer);
  void do_names(const std::string&, Answer& answer);
  void do_print(const std::string& arguments, Answer& answer);
  void do_owner(const std::string& arguments, Answer& answer);
  void do_thread(const std::string& arguments, Answer& answer);
  void do_layout(const std::string& arguments, Answer& answer);
  void do_picture(const std::string& arguments, Answer& answer);
  void do_help(const std::string&, Answer& answer);
  void do_quit(const std::string&, Answer&) { over = true; }

  const Recording& recording_;
  std::vector<size_t> stops_;    ///< the events that are statements
  std::set<std::string> calls_;  ///< the functions that are called
  size_t at_ = 0;                ///< of these, the one about to begin; their number: the end
  uint32_t all_threads_ = 0;     ///< that carry out statements
  std::set<int> breaks_;         ///< lines
  std::map<std::string, std::vector<std::string>> sources_;
};

}  // namespace tegula
