// What a run learns about ranks that die: their last words and what the kernel says.
#include <sys/statvfs.h>

#include <csignal>

#include "core/error.h"
#include "launcher/supervisor.h"

namespace ds {
namespace {

std::optional<DiskRoom> room_in(const RunDirectory& directory, const std::string& shown) {
  struct statvfs info {};
  if (statvfs(directory.path().c_str(), &info) != 0) return std::nullopt;
  return DiskRoom{.path = shown,
                  .free_bytes = static_cast<int64_t>(info.f_bavail * info.f_frsize),
                  .total_bytes = static_cast<int64_t>(info.f_blocks * info.f_frsize),
                  .need_bytes = newest_checkpoint_bytes(directory.path())};
}

}  // namespace

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
  if (const auto words = last_words_.find(cause.rank); words != last_words_.end()) out.words = words->second;
  if (const auto death = memory_deaths_.find(cause.rank); death != memory_deaths_.end()) {
    out.memory = death->second;
  }
  if (cause.kind == Failure::Kind::kExit && cause.value == static_cast<int>(ExitCode::kStorage)) {
    out.disk = room_in(directory_, directory_.shown(directory_.path()));
  }
  if (const std::string phrase = death_phrase(cause, out); !phrase.empty() && cause.detail.empty()) {
    cause.detail = phrase;
  }
}

}  // namespace ds
