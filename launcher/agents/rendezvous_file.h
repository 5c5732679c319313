// The rendezvous file tells the other dslaunch where the first of them waits. It lies in a folder
// that they share, and has the addresses of the first, the name and authority by which they know
// it, and a token that is good for this one rendezvous. It has mode 0600, is replaced whole, and is
// removed once all have met. It is believed only if it belongs to this user and no other user may
// read it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/secrecy.h"

namespace ds {

constexpr size_t kRendezvousTokenDigits = 64;  // of 32 random bytes

struct RendezvousPlace {
  std::vector<std::string> endpoints;  // "10.0.0.1:4242", to be tried in this order
  std::string server_name;             // in the certificate of the launcher
  std::string authority;               // that has signed it: a certificate as PEM
  std::string token;                   // hexadecimal; wiped when it goes
  ~RendezvousPlace() { wipe(token); }
  friend bool operator==(const RendezvousPlace&, const RendezvousPlace&) = default;
};

// Pure. nullopt: no such text, for example one of another version.
std::string rendezvous_text(const RendezvousPlace& place);
std::optional<RendezvousPlace> parse_rendezvous(std::string_view text);

// ".dslaunch-rendezvous-<digest>" for a job, the same on all of its hosts (pure).
std::string rendezvous_file_name(std::string_view job);

// Written by its constructor, removed by its destructor. Throws IoError.
class RendezvousFile {
 public:
  RendezvousFile(std::filesystem::path path, const RendezvousPlace& place);
  RendezvousFile(const RendezvousFile&) = delete;  // removes its file once
  RendezvousFile& operator=(const RendezvousFile&) = delete;
  ~RendezvousFile();

 private:
  const std::filesystem::path path_;
};

struct FoundRendezvous {
  std::optional<RendezvousPlace> place;
  std::string why;  // there is none, for messages
};
FoundRendezvous read_rendezvous_file(const std::filesystem::path& path);

}  // namespace ds
