// A pair of pipes that goes on over TCP, encrypted: what is written into one comes out of the other
// side's, by a thread of its own. Both sides know one secret (TLS 1.3 with an external pre-shared
// key and fresh Diffie-Hellman keys, no certificates); who does not know it hears the handshake
// fail and nothing else. Refuses to know what is said.
#pragma once

#include <chrono>
#include <string>
#include <thread>

#include "core/files/file.h"

namespace ds {

constexpr size_t kRelaySecretBytes = 32;

class TlsRelay {
 public:
  enum class Role { kServer, kClient };

  // `connection` is a connected TCP socket. Reading `input()` gives what the other side wrote; it
  // ends when that side ends, or when the handshake has failed or taken longer than `patience`.
  // `output()` takes what shall go there; closing it ends that direction.
  TlsRelay(Role role, Fd connection, const std::string& secret, std::chrono::milliseconds patience);
  TlsRelay(const TlsRelay&) = delete;  // the thread holds `this`
  TlsRelay& operator=(const TlsRelay&) = delete;
  ~TlsRelay();  // cuts the connection

  // Once each; the caller owns them.
  Fd take_input() { return std::move(input_); }
  Fd take_output() { return std::move(output_); }

 private:
  const Fd connection_;
  Fd input_;
  Fd output_;
  std::thread thread_;  // last: uses the connection
};

}  // namespace ds
