#include "rankd/step_commands.h"

#include <algorithm>

#include "core/values/index.h"

namespace ds {

StepCommands::StepCommands(Source source, std::function<void()> pause)
    : source_(std::move(source)), pause_(std::move(pause)) {}

void StepCommands::fetch() {
  while (const std::optional<Command> command = source_()) waiting_.push_back(*command);
}

int64_t StepCommands::seen() {
  fetch();
  return taken_ + narrow<int64_t>(waiting_.size());
}

void StepCommands::agree(int64_t count) { agreed_ = std::max(agreed_, count); }

std::optional<Command> StepCommands::next() { return due() ? std::optional(wait()) : std::nullopt; }

Command StepCommands::wait() {
  for (fetch(); waiting_.empty(); fetch()) pause_();
  const Command command = waiting_.front();
  waiting_.pop_front();
  ++taken_;
  return command;
}

}  // namespace ds
