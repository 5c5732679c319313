// The launcher's commands at step edges. Every rank gets the same commands in the same order, but
// sees them at different moments; so ranks tell each other how many they have seen (with the sums
// of a step), and each acts on them up to the highest number, waiting for those still on their way
// to it. Refuses to know what a command does.
#pragma once

#include <deque>
#include <functional>
#include <optional>

#include "train/settings/job.h"

namespace ds {

class StepCommands {
 public:
  using Source = std::function<std::optional<Command>()>;  // nothing: none has come yet
  // `pause` is called between two looks at a source that has nothing.
  StepCommands(Source source, std::function<void()> pause);

  int64_t seen();             // how many have come so far, since construction
  void agree(int64_t count);  // the highest seen() of all ranks
  // Whether next() has one, or would wait for it: the same on all ranks after the same agree().
  bool due() const { return taken_ < agreed_; }
  // The next one that all ranks agreed on, if there is one.
  std::optional<Command> next();
  // The next one, whenever it comes: for ranks that wait together, so nothing is left to agree on.
  Command wait();

 private:
  void fetch();

  const Source source_;
  const std::function<void()> pause_;
  std::deque<Command> waiting_;
  int64_t taken_ = 0;
  int64_t agreed_ = 0;
};

}  // namespace ds
