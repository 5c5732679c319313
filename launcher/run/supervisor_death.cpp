// What a run learns about ranks that die: their last words and what the kernel says.
#include "core/error.h"
#include "launcher/run/supervisor.h"

namespace ds {
void Supervisor::hear(int rank, std::string_view line) {
  last_words_[rank].add(line);
  if (!parse_death_note(line)) console_.rank_output(rank, line);
}

// Completes the cause by what is known beyond its status.
void Supervisor::note_circumstances(Failure& cause) {
  DeathCircumstances& out = record_.circumstances;
  out = {};
  if (world_ && cause.rank >= 0 && cause.rank < world_->size()) {
    out.host = plan_.ranks[static_cast<size_t>(cause.rank)].host;
    out.pid = world_->pid_of(cause.rank);
    out.progress = membership_->ranks(now())[static_cast<size_t>(cause.rank)].progress;
  }
  if (const auto words = last_words_.find(cause.rank); words != last_words_.end())
    out.words = words->second;
  if (const auto death = memory_deaths_.find(cause.rank); death != memory_deaths_.end()) {
    out.memory = death->second;
  }
  if (const std::string phrase = death_phrase(cause, out);
      !phrase.empty() && cause.detail.empty()) {
    cause.detail = phrase;
  }
}

}  // namespace ds
