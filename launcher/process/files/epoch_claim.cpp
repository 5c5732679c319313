#include "launcher/process/files/epoch_claim.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <span>

namespace ds {
namespace {

constexpr std::string_view kClaim = "generation.";
constexpr std::string_view kEarlierClaim = "epoch.";  // as earlier versions called it
// Beyond this a number is no epoch but damage, and one more would not be exact in JSON.
constexpr int64_t kLargest = int64_t{1} << 53;

std::optional<int64_t> leading_number(std::string_view text) {
  int64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool counts = parsed.ec == std::errc() && value >= 0 && value <= kLargest;
  return counts ? std::optional(value) : std::nullopt;
}

std::string logs_in(const std::string& run_directory) { return join_path(run_directory, "logs"); }

// Returns the number of the epoch that a file of this name claims; nothing for other names.
std::optional<int64_t> claimed_by(const std::string& name) {
  for (const std::string_view claim : {kClaim, kEarlierClaim}) {
    if (!name.starts_with(claim)) continue;
    const std::optional<int64_t> number =
        leading_number(std::string_view(name).substr(claim.size()));
    if (number && name == fmt::format("{}{}", claim, *number)) return number;
  }
  return std::nullopt;
}

int64_t number_in(FileSystem& files, const std::string& path) {
  constexpr int64_t kLongest = 256;
  try {
    return files.exists(path) ? leading_number(files.read_text(path, kLongest)).value_or(0) : 0;
  } catch (const Error&) {
    return 0;  // checkpoint/commit.h refuses what stands there and is no number
  }
}

// For people: the name is the claim, so a disk without room for more than that will do.
void say_who(File& claim, const std::string& holder) {
  try {
    const std::string text = holder + "\n";
    claim.write(0, std::as_bytes(std::span(text)));
  } catch (const DiskFull&) {
    return;
  }
}

void forget_older(FileSystem& files, const std::string& logs, int64_t epoch) {
  try {
    for (const DirectoryEntry& entry : files.list(logs)) {
      const std::optional<int64_t> number = claimed_by(entry.name);
      if (number && *number < epoch) files.remove(join_path(logs, entry.name));
    }
  } catch (const Error&) {
    return;  // they only take room
  }
}

}  // namespace

int64_t newest_epoch(FileSystem& files, const std::string& run_directory) {
  const std::string logs = logs_in(run_directory);
  // logs/epoch: where earlier versions noted it.
  int64_t newest = std::max(number_in(files, join_path(run_directory, "checkpoints/epoch")),
                            number_in(files, join_path(logs, "epoch")));
  if (!files.exists(logs)) return newest;
  for (const DirectoryEntry& entry : files.list(logs)) {
    newest = std::max(newest, claimed_by(entry.name).value_or(0));
  }
  return newest;
}

int64_t claim_epoch(FileSystem& files, const std::string& run_directory, int64_t wanted,
                    const std::string& holder) {
  constexpr int kMostTries = 1000;
  const std::string logs = logs_in(run_directory);
  int64_t epoch = std::max(wanted, 1 + newest_epoch(files, run_directory));
  for (int tries = 0; tries < kMostTries; ++tries) {
    const std::string path = join_path(logs, fmt::format("{}{}", kClaim, epoch));
    std::unique_ptr<File> claim;
    try {
      claim = files.create(path);
    } catch (const IoError&) {
      if (!files.exists(path)) throw;  // it failed for another reason than that somebody has it
      ++epoch;
      continue;
    }
    say_who(*claim, holder);
    // While we waited for the disk, another launcher may have had this number, and a later one, and
    // forgotten it.
    if (const int64_t newest = newest_epoch(files, run_directory); newest > epoch) {
      epoch = newest + 1;
      continue;
    }
    forget_older(files, logs, epoch);
    return epoch;
  }
  throw IoError(fmt::format("{}: {} numbers up to {} are all claimed", logs, kMostTries, epoch));
}

}  // namespace ds
