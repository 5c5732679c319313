// The certificate authority of one job: made in memory when the job starts, gone when it ends. It
// certifies the coordinator by its literal address and name and each rank by job, epoch and rank,
// so that a certificate of another job, an older epoch or another rank is worth nothing. It writes
// nothing anywhere and refuses to know who asks.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ds {

// What one end of a TLS connection proves itself with, as PEM. Wiped when it goes.
struct TlsIdentity {
  std::string certificate;
  std::string private_key;

  TlsIdentity() = default;
  TlsIdentity(TlsIdentity&&) = default;
  TlsIdentity& operator=(TlsIdentity&&) = delete;
  ~TlsIdentity();
};

// The name in a rank's certificate.
std::string rank_uri(const std::string& job, int64_t epoch, int rank);

class JobAuthority {
 public:
  using WallClock = std::chrono::system_clock;
  static constexpr std::chrono::hours kNoLimit{24 * 365};  // for jobs that name none

  // Certificates are good from a day before `now`, because hosts' clocks differ, to a day after the
  // longest the job may last. Throws InternalError when libcrypto fails.
  explicit JobAuthority(WallClock::time_point now, std::chrono::seconds job_limit = kNoLimit);
  JobAuthority(const JobAuthority&) = delete;  // holds the job's key
  JobAuthority& operator=(const JobAuthority&) = delete;
  ~JobAuthority();

  const std::string& job() const { return job_; }  // random, not secret
  const std::string& certificate() const { return certificate_; }

  // `addresses` are literal IP addresses; `name` is what its ranks call it, empty: nothing.
  TlsIdentity certify_coordinator(const std::vector<std::string>& addresses,
                                  const std::string& name = "") const;
  TlsIdentity certify_rank(int64_t epoch, int rank) const;

 private:
  struct Keys;
  std::string job_;
  std::unique_ptr<Keys> keys_;
  std::string certificate_;
};

// One of now, for a job that lasts no longer than `longest_life`.
std::shared_ptr<const JobAuthority> make_job_authority(
    std::optional<std::chrono::nanoseconds> longest_life);

}  // namespace ds
