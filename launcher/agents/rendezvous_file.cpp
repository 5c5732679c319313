#include "launcher/agents/rendezvous_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "core/files/file.h"
#include "core/status/error.h"
#include "launcher/process/credentials.h"

namespace ds {
namespace {

constexpr std::string_view kTitle = "dslaunch rendezvous 2";
constexpr std::string_view kCertificate = "-----BEGIN CERTIFICATE-----\n";
constexpr std::string_view kEnd = "end of the rendezvous";
constexpr size_t kMaxBytes = 16384;

std::string_view take_line(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

}  // namespace

std::string rendezvous_text(const RendezvousPlace& place) {
  std::string text;
  append_secret(text, fmt::format("{}\n", kTitle));
  append_secret(text, place.token);
  append_secret(text, fmt::format("\n{}\n{}\n{}{}\n", place.server_name,
                                  fmt::join(place.endpoints, "\n"), place.authority, kEnd));
  return text;
}

std::optional<RendezvousPlace> parse_rendezvous(std::string_view text) {
  if (take_line(text) != kTitle) return std::nullopt;
  RendezvousPlace place;
  place.token = take_line(text);
  place.server_name = take_line(text);
  while (!text.empty() && !text.starts_with(kCertificate)) {
    place.endpoints.emplace_back(take_line(text));
  }
  while (!text.empty() && !text.starts_with(kEnd)) {
    place.authority.append(take_line(text)) += '\n';
  }
  const bool whole = text == fmt::format("{}\n", kEnd) && !place.endpoints.empty() &&
                     !place.authority.empty() && place.token.size() == kRendezvousTokenDigits;
  return whole ? std::optional(place) : std::nullopt;
}

std::string rendezvous_file_name(std::string_view job) {
  return ".dslaunch-rendezvous-" + sha256_hex(job).substr(0, 32);
}

RendezvousFile::RendezvousFile(std::filesystem::path path, const RendezvousPlace& place)
    : path_(std::move(path)) {
  const std::string draft = fmt::format("{}.{}", path_.string(), to_hex(random_bytes(8)));
  const auto failed = [&](const char* what) {
    const std::string reason = std::strerror(errno);
    unlink(draft.c_str());
    throw IoError(
        fmt::format("{} {}: {}; the folder has to be writable and shared by all hosts of "
                    "the job",
                    what, path_.string(), reason));
  };
  const Fd fd(open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd.valid()) failed("making");
  std::string text = rendezvous_text(place);
  const bool written =
      write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  wipe(text);
  if (!written || fsync(fd.get()) != 0) failed("writing");
  if (rename(draft.c_str(), path_.c_str()) != 0) failed("naming");
}

RendezvousFile::~RendezvousFile() { unlink(path_.c_str()); }

FoundRendezvous read_rendezvous_file(const std::filesystem::path& path) {
  // Network file systems look into a folder anew when it is opened, not when a name in it is asked
  // for.
  const Fd folder(open(path.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid())
    return {std::nullopt, fmt::format("{}: {}", path.parent_path().string(), std::strerror(errno))};
  const Fd fd(openat(folder.get(), path.filename().c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.valid())
    return {std::nullopt, fmt::format("{}: {}", path.string(), std::strerror(errno))};
  struct stat info {};
  if (fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != geteuid() ||
      (info.st_mode & 077) != 0) {
    return {std::nullopt, fmt::format("{} is not a file of this user alone", path.string())};
  }
  std::array<char, kMaxBytes> bytes{};
  const ssize_t got = read(fd.get(), bytes.data(), bytes.size());
  FoundRendezvous found;
  found.place = parse_rendezvous({bytes.data(), static_cast<size_t>(std::max<ssize_t>(0, got))});
  wipe(bytes);
  if (!found.place)
    found.why = fmt::format("{} says nothing that is understood here", path.string());
  return found;
}

}  // namespace ds
