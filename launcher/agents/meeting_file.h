// Where the first of many dslaunch waits for the others, as a file in a folder that they share: its
// addresses and a secret that is good for this one meeting. Mode 0600, replaced whole, gone once
// all have met. It is believed only if it belongs to this user and nobody else may read it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/secrecy.h"

namespace ds {

struct MeetingPlace {
  std::vector<std::string> endpoints;  // "10.0.0.1:4242", to be tried in this order
  std::string secret;                  // kRelaySecretBytes; wiped when it goes
  ~MeetingPlace() { wipe(secret); }
  friend bool operator==(const MeetingPlace&, const MeetingPlace&) = default;
};

// Pure. nullopt: no such text, for example one of another version.
std::string meeting_text(const MeetingPlace& place);
std::optional<MeetingPlace> parse_meeting(std::string_view text);

// ".dslaunch-meeting-<digest>" for a job, the same on all of its hosts (pure).
std::string meeting_file_name(std::string_view job);

// Written by its constructor, removed by its destructor. Throws IoError.
class MeetingFile {
 public:
  MeetingFile(std::filesystem::path path, const MeetingPlace& place);
  MeetingFile(const MeetingFile&) = delete;  // removes its file once
  MeetingFile& operator=(const MeetingFile&) = delete;
  ~MeetingFile();

 private:
  const std::filesystem::path path_;
};

struct FoundMeeting {
  std::optional<MeetingPlace> place;
  std::string why;  // there is none, for messages
};
FoundMeeting read_meeting_file(const std::filesystem::path& path);

}  // namespace ds
