#include "comm/tcp/handshake.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/status/error.h"

namespace ds::detail {
namespace {

constexpr char kMagic[8] = {'d', 's', 'd', 'a', 't', 'a', '0', '1'};
constexpr uint32_t kByteOrder = 0x01020304;
constexpr size_t kFixedBytes = sizeof(kMagic) + sizeof(kByteOrder);  // equal in every good hello
constexpr size_t kProofSize = sizeof(ProofBytes);
static_assert(sizeof(TcpHello) == 64, "the hello has no padding");

TcpHello hello_of(const HandshakeParty& self, int to, const ProofBytes& challenge) {
  TcpHello hello{};
  std::memcpy(hello.magic, kMagic, sizeof(kMagic));
  hello.byte_order = kByteOrder;
  hello.from = self.rank;
  hello.to = to;
  hello.size = self.size;
  hello.epoch = self.epoch;
  hello.challenge = challenge;
  return hello;
}

std::span<const std::byte> bytes_of(const TcpHello& hello) {
  return std::as_bytes(std::span(&hello, 1));
}

}  // namespace

TcpHandshake::TcpHandshake(Side side, const HandshakeParty& self, const ProofBytes& challenge)
    : side_(side),
      self_(self),
      step_(side == Side::kDials ? Step::kAnswer : Step::kHello),
      own_challenge_(challenge) {}

TcpHandshake TcpHandshake::dial(const HandshakeParty& self, int to, const ProofBytes& challenge) {
  TcpHandshake handshake(Side::kDials, self, challenge);
  handshake.peer_ = to;
  handshake.hello_ = hello_of(self, to, challenge);
  handshake.send(bytes_of(handshake.hello_));
  handshake.send(handshake.proof_of(Step::kHello));
  return handshake;
}

TcpHandshake TcpHandshake::accept(const HandshakeParty& self, const ProofBytes& challenge) {
  return TcpHandshake(Side::kAccepts, self, challenge);
}

ProofBytes TcpHandshake::proof_of(Step step) const {
  const auto label = std::byte{static_cast<unsigned char>(step)};
  return prove(self_.secret, {std::span(&label, 1), bytes_of(hello_), answer_challenge_});
}

ProofBytes TcpHandshake::received_proof(size_t at) const {
  ProofBytes proof{};
  std::memcpy(proof.data(), input_.data() + at, proof.size());
  return proof;
}

void TcpHandshake::send(std::span<const std::byte> bytes) {
  output_.insert(output_.end(), bytes.begin(), bytes.end());
}

std::vector<std::byte> TcpHandshake::take_output() { return std::exchange(output_, {}); }

void TcpHandshake::refuse(const std::string& reason) {
  state_ = State::kRefused;
  reason_ = reason;
  output_.clear();
}

size_t TcpHandshake::step_bytes() const {
  switch (step_) {
    case Step::kHello:
      return sizeof(TcpHello) + kProofSize;
    case Step::kAnswer:
      return 2 * kProofSize;
    default:
      return kProofSize;
  }
}

size_t TcpHandshake::wanted() const {
  return state_ == State::kTalking ? step_bytes() - input_.size() : 0;
}

void TcpHandshake::feed(std::span<const std::byte> bytes) {
  DS_CHECK(bytes.size() <= wanted(), "handshake: {} bytes, expected at most {}", bytes.size(),
           wanted());
  input_.insert(input_.end(), bytes.begin(), bytes.end());
  if (step_ == Step::kHello) {
    // What cannot become a hello ends at its first wrong byte.
    const TcpHello good = hello_of(self_, 0, own_challenge_);
    if (std::memcmp(input_.data(), &good, std::min(input_.size(), kFixedBytes)) != 0) {
      refuse("it does not speak this protocol, or has another byte order");
      return;
    }
  }
  if (wanted() != 0) return;
  switch (step_) {
    case Step::kHello:
      take_hello();
      break;
    case Step::kAnswer:
      take_answer();
      break;
    case Step::kProof:
      take_proof();
      break;
    case Step::kWelcome:
      take_welcome();
      break;
  }
  input_.clear();
}

void TcpHandshake::take_hello() {
  std::memcpy(&hello_, input_.data(), sizeof(hello_));
  if (!equal_proofs(received_proof(sizeof(hello_)), proof_of(Step::kHello))) {
    return refuse("it does not know the secret of this generation");
  }
  if (hello_.epoch != self_.epoch) {
    return refuse(
        fmt::format("it is of generation {}, this is generation {}", hello_.epoch, self_.epoch));
  }
  if (hello_.size != self_.size || hello_.to != self_.rank || hello_.from <= self_.rank ||
      hello_.from >= self_.size) {
    return refuse(fmt::format("it is rank {} of {} for rank {}; this is rank {} of {}", hello_.from,
                              hello_.size, hello_.to, self_.rank, self_.size));
  }
  peer_ = hello_.from;
  answer_challenge_ = own_challenge_;
  send(own_challenge_);
  send(proof_of(Step::kAnswer));
  step_ = Step::kProof;
}

void TcpHandshake::take_answer() {
  std::memcpy(answer_challenge_.data(), input_.data(), answer_challenge_.size());
  if (!equal_proofs(received_proof(kProofSize), proof_of(Step::kAnswer))) {
    return refuse("it does not know the secret of this generation");
  }
  send(proof_of(Step::kProof));
  step_ = Step::kWelcome;
}

void TcpHandshake::take_proof() {
  if (!equal_proofs(received_proof(0), proof_of(Step::kProof))) {
    return refuse("it does not know the secret of this generation, or plays back a recording");
  }
  state_ = State::kProven;
}

void TcpHandshake::take_welcome() {
  if (!equal_proofs(received_proof(0), proof_of(Step::kWelcome))) {
    return refuse("its welcome is not genuine");
  }
  state_ = State::kWelcome;
}

void TcpHandshake::welcome() {
  DS_CHECK(state_ == State::kProven, "handshake: welcome before the proof");
  send(proof_of(Step::kWelcome));
  state_ = State::kWelcome;
}

}  // namespace ds::detail
