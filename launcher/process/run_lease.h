// The lease of a run directory as a file in it (launcher/decide/lease_rules.h says what it means):
// taken before anything else is written there, renewed while the run goes on, and marked as over at
// its end. The kernel keeps a lock on it for as long as the launcher lives, stopped or not.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "core/files/file.h"
#include "core/status/error.h"
#include "launcher/decide/lease_rules.h"

namespace ds {

// Another launcher works in the run directory. The message names it.
class LeaseRefused : public Error {
 public:
  explicit LeaseRefused(const std::string& message) : Error(ExitCode::kRequeue, message) {}
};

std::filesystem::path lease_path(const std::filesystem::path& run_directory);
// Who launched last in the directory, running or not; nothing where nobody did or it cannot be
// read.
std::optional<Lease> last_lease(const std::filesystem::path& run_directory);
// Whether a launcher keeps its lock there now, as far as this file system shows it.
bool is_launched(const std::filesystem::path& run_directory);

class RunLease {
 public:
  struct Patience {
    // Told once, when it is not clear yet whether the holder still runs.
    std::function<void(const Lease& holder)> watching;
    // Asked meanwhile, again and again; true ends the watch.
    std::function<bool()> interrupted;
  };

  // Throws LeaseRefused, IoError.
  static RunLease take(const std::filesystem::path& run_directory, const Patience& patience);
  RunLease(RunLease&&) noexcept = default;
  RunLease& operator=(RunLease&&) = delete;
  ~RunLease();  // marks it as over

  // To be called every kLeaseRenewal, by any one thread at a time. Throws LeaseRefused if another
  // launcher has taken it over, IoError if that cannot be found out now.
  void renew();
  // The run has ended, with this code if that is known. What fails is left to the next launch to
  // find out.
  void end(std::optional<int> exit_code) noexcept;

 private:
  RunLease(std::filesystem::path path, Fd file, Lease lease)
      : path_(std::move(path)), file_(std::move(file)), lease_(std::move(lease)) {}
  void write() const;
  bool follow_name();

  std::filesystem::path path_;
  Fd file_;  // its lock is ours
  Lease lease_;
};

}  // namespace ds
