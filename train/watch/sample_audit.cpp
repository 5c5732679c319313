#include "train/watch/sample_audit.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cerrno>

namespace ds {

SampleAudit::SampleAudit(const std::string& run_dir, int rank, int64_t epoch)
    : path_(fmt::format("{}/logs/samples-rank-{}.jsonl", run_dir, rank)),
      epoch_(epoch),
      fd_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666)) {
  if (!fd_.valid()) throw_io_error("open", path_, errno);
}

void SampleAudit::on_samples(int64_t steps_done, int micro_step, std::span<const int64_t> samples) {
  const std::string line =
      fmt::format("{{\"generation\": {}, \"step\": {}, \"micro_step\": {}, \"samples\": [{}]}}\n",
                  epoch_, steps_done + 1, micro_step, fmt::join(samples, ", "));
  // One write: a line is there whole or, if the disk is full, the run ends.
  if (::write(fd_.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    throw_io_error("write", path_, errno);
  }
}

}  // namespace ds
