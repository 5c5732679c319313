// Which tags of a folder led to which (pure). A training has a line: the epoch that began it, and
// its tags by step. One that goes back to an earlier tag begins another line from there, whose
// ancestors are the tags up to that one; what the line before had made since then is left behind.
// So nobody resumes from it, however far it had come, and nothing has to be deleted for that.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

namespace ds {

// An ancestor stands for the tags up to that step, of the line that began in that epoch.
struct Ancestor {
  int64_t begun_in = 0;
  int64_t step = 0;
  friend bool operator==(const Ancestor&, const Ancestor&) = default;
};
// More than these nobody keeps: of older lines there are no tags any more.
inline constexpr size_t kMostAncestors = 16;

struct CommittedTag {
  std::string tag;
  int64_t step = 0;
  int64_t epoch = 0;
  int64_t begun_in = 0;           // the epoch that began its line
  std::vector<Ancestor> after{};  // what led to that line
  // Its step changed no weight, because gradients overflowed: no progress since the tag before.
  bool skipped = false;
  bool named = false;  // `latest` has named it: one that names another tag was set by somebody
};
// A trace of a checkpoint that cannot be loaded.
struct RejectedTag {
  std::string name;                   // of the directory
  std::optional<int64_t> step;        // where manifest or name tell it
  std::string why;                    // names the path
  std::optional<int64_t> begun_in{};  // where the manifest tells it
  std::vector<Ancestor> after{};      // likewise
};

// States of one folder by age, the newest last. A training that was begun anew takes the place of
// the one before it, however far that one had come.
template <class State>
auto age_of(const State& state) {
  return std::tuple(state.begun_in, state.step, state.epoch);
}

// What training may go on from.
struct Line {
  int64_t begun_in = 0;
  std::vector<Ancestor> after{};
  std::optional<int64_t> until{};  // of the line itself, up to that step; nothing: all of it
  bool has(int64_t begun, int64_t step) const;
};
// That of a tag, up to it.
Line line_up_to(const CommittedTag& tag);
// The ancestors of a line that begins after the tag, with those that lie in `there`.
std::vector<Ancestor> ancestors_after(const CommittedTag& tag, std::span<const CommittedTag> there);

struct TagList {
  std::vector<CommittedTag> tags;     // newest (age_of) first
  std::vector<RejectedTag> rejected;  // by name
  std::string latest{};               // the tag that `latest` names; empty: none that is there
};

// What a launch was told to go on from.
struct ResumeWish {
  // Tags of older epochs are passed over, but for `tag` and its ancestors: whoever restarts goes on
  // from what the launch has made itself.
  int64_t oldest_epoch = 0;
  std::string tag{};  // empty: the newest, or the one that `latest` was set to
};

enum class ChosenBy { kAge, kLatest, kWish };

struct Resumable {
  std::vector<CommittedTag> tags;     // newest first
  std::vector<RejectedTag> rejected;  // of the same line, as far as is known
  ChosenBy chosen_by = ChosenBy::kAge;
  std::string newest{};  // of all tags; empty: there is none
  std::string latest{};  // as in the list
  // What `latest` names although it never named the newest, which may be an accident.
  std::string overlooked{};
  int64_t last_begun = 0;  // the line that began last, as far as is known
  Line line{};             // what the tags are of
  // Whether training that goes on from the tag begins a line of its own.
  bool branches_at(const CommittedTag& tag) const;
  // The same for a state that hosts keep in their memory: one of the line, or of a line that began
  // since all tags.
  bool has_state(int64_t begun_in, int64_t step) const;
};
Resumable resumable_of(TagList list, const ResumeWish& wish = {});

// Which tags stay.
struct TagsToKeep {
  // NOLINTNEXTLINE(google-explicit-constructor): most say no more than a number
  TagsToKeep(int64_t the_newest, std::string one = "")
      : newest(the_newest), always(std::move(one)) {}
  int64_t newest;      // so many; 0: all
  std::string always;  // and that one, whatever its age, which takes the place of none; or empty
};
// Returns which of the tags up to `step`, newest first, are to be deleted so that those to keep
// stay. A tag of a skipped step takes the place of none: it stays beside them while it is the
// newest. What is of another line than the newest goes first.
std::vector<std::string> surplus_of(const std::vector<CommittedTag>& tags, const TagsToKeep& keep,
                                    int64_t step);

}  // namespace ds
