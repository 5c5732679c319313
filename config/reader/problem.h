// What is wrong, or worth knowing, about a configuration: collected rather than thrown, so that a
// user sees everything at once.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "config/reader/value.h"

namespace ds {

enum class Severity { kError, kNote };

// Who objects: DeepSpeed refuses the same configuration, or only we do (an unknown key that
// DeepSpeed ignores, a combination it accepts and then mishandles). A note of kDeepSpeed is about
// what its newest release refuses and older ones took.
enum class Basis { kDeepSpeed, kOwn };

struct Problem {
  Severity severity = Severity::kError;
  Basis basis = Basis::kDeepSpeed;
  std::string path;     // "zero_optimization.stage"; empty for the document itself
  Origin origin;        // where the value stands; without a source when nothing was written
  std::string message;  // without path and position

  // "train.json:3:14: zero_optimization.stage: message"
  std::string text() const;
};

// Whether `path` is `section` or stands in it.
bool is_within(std::string_view path, std::string_view section);

class Problems {
 public:
  // Beyond this many entries only the count grows, but that errors take the places of notes: a
  // hostile file must not fill the screen.
  static constexpr size_t kMostReported = 200;

  void add(Problem problem);
  void error(Basis basis, std::string path, const Origin& origin, std::string message);
  void note(std::string path, const Origin& origin, std::string message, Basis basis = Basis::kOwn);
  // Errors that only we raise, in what turned out not to matter, become notes that end in `why`.
  void soften(const std::function<bool(const Problem&)>& is_moot, std::string_view why);
  const std::vector<Problem>& all() const { return all_; }
  size_t left_out() const { return left_out_; }
  bool has_errors() const;
  // Throws ConfigError with every error, one a line, in order of appearance; does nothing without
  // errors.
  void throw_if_any() const;

 private:
  std::vector<Problem> all_;
  size_t left_out_ = 0;
};

}  // namespace ds
