// How two ranks come to trust a connection (pure): bytes in, bytes out.
//
//   dialler                                    acceptor, silent until a proven hello came
//   hello: who to whom, challenge a, proof -->
//                                          <-- challenge b, proof over both
//   proof over both                        -->
//                                          <-- welcome, proof over both; or the connection ends
//
// Each proof is keyed with the secret of the epoch and covers the hello (epoch, ranks, world size)
// and which of the four it is, so that none can be used in another place, direction or epoch. A
// recorded session fails at the acceptor's fresh challenge.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/tcp/proof.h"
#include "core/text/secrecy.h"

namespace ds::detail {

struct HandshakeParty {
  int rank = 0;
  int size = 1;
  int64_t epoch = 1;
  std::string secret;

  ~HandshakeParty() { wipe(secret); }
};

struct TcpHello {  // travels as it is: both ends have the same byte order, or the hello is refused
  char magic[8];
  uint32_t byte_order;
  int32_t from;
  int32_t to;
  int32_t size;
  int64_t epoch;
  ProofBytes challenge;
};

class TcpHandshake {
 public:
  enum class State : uint8_t { kTalking, kProven, kWelcome, kRefused };

  static TcpHandshake dial(const HandshakeParty& self, int to, const ProofBytes& challenge);
  static TcpHandshake accept(const HandshakeParty& self, const ProofBytes& challenge);

  // How many bytes may be read now: never one that comes after the handshake.
  size_t wanted() const;
  // At most wanted() bytes.
  void feed(std::span<const std::byte> bytes);
  // What is to be sent now.
  std::vector<std::byte> take_output();

  // kProven (acceptor): the dialler is peer(); welcome() admits it. kWelcome: the connection is
  // ready.
  State state() const { return state_; }
  int peer() const { return peer_; }
  const std::string& reason() const { return reason_; }  // of the refusal
  void welcome();

 private:
  enum class Side : uint8_t { kDials, kAccepts };
  enum class Step : uint8_t { kHello, kAnswer, kProof, kWelcome };
  TcpHandshake(Side side, const HandshakeParty& self, const ProofBytes& challenge);
  size_t step_bytes() const;
  void take_hello();
  void take_answer();
  void take_proof();
  void take_welcome();
  ProofBytes proof_of(Step step) const;
  ProofBytes received_proof(size_t at) const;
  void send(std::span<const std::byte> bytes);
  void refuse(const std::string& reason);

  Side side_;
  HandshakeParty self_;
  Step step_;
  State state_ = State::kTalking;
  int peer_ = -1;
  TcpHello hello_{};
  ProofBytes own_challenge_;
  ProofBytes answer_challenge_{};
  std::vector<std::byte> input_;
  std::vector<std::byte> output_;
  std::string reason_;
};

}  // namespace ds::detail
