// What ranks prove to each other, and where the parts of their shared memory lie.
#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "comm/shm/layout.h"
#include "comm/tcp/address.h"
#include "comm/tcp/link_pulse.h"
#include "comm/tcp/proof.h"
#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds::detail {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::string hex(const ProofBytes& bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", std::to_integer<int>(byte));
  return text;
}

TEST_CASE("a proof is HMAC-SHA256 as it is published", "[comm][security]") {
  // RFC 4231, test cases 1, 2 and 6.
  CHECK(hex(prove(std::string(20, '\x0b'), {bytes_of("Hi There")})) ==
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  CHECK(hex(prove("Jefe", {bytes_of("what do ya want for nothing?")})) ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK(hex(prove(std::string(131, '\xaa'),
                  {bytes_of("Test Using Larger Than Block-Size Key - Hash Key First")})) ==
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST_CASE("the parts of a proof are one message", "[comm][security]") {
  const ProofBytes whole = prove("secret", {bytes_of("abcdef")});
  CHECK(equal_proofs(whole, prove("secret", {bytes_of("abc"), bytes_of("def")})));
  CHECK(equal_proofs(whole, prove("secret", {bytes_of(""), bytes_of("abcdef"), bytes_of("")})));
  CHECK_FALSE(equal_proofs(whole, prove("secret", {bytes_of("def"), bytes_of("abc")})));
  CHECK_FALSE(equal_proofs(whole, prove("Secret", {bytes_of("abcdef")})));
}

TEST_CASE("proofs differ wherever one bit does", "[comm][security]") {
  const ProofBytes proof = prove("secret", {bytes_of("abc")});
  for (size_t byte = 0; byte < proof.size(); ++byte) {
    for (const int bit : {0, 7}) {
      ProofBytes other = proof;
      other[byte] ^= static_cast<std::byte>(1 << bit);
      REQUIRE_FALSE(equal_proofs(proof, other));
    }
  }
}

TEST_CASE("no challenge is made twice", "[comm][security]") {
  std::set<std::string> seen;
  for (int i = 0; i < 200; ++i) CHECK(seen.insert(hex(random_challenge())).second);
}

TEST_CASE("an address that is no interface's own is refused with the reason", "[comm]") {
  for (const char* text : {"", "node-1", "10.0.0", "10.0.0.1:80", "fd00::1%eth0", "10.0.0.01x"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(parse_interface_address(text), ConfigError);
    CHECK_THROWS_WITH(parse_interface_address(text), Catch::Contains("expected a literal IPv4"));
  }
  for (const char* text : {"0.0.0.0", "::", "224.0.0.1", "255.255.255.255", "ff02::1"}) {
    CAPTURE(text);
    CHECK_THROWS_WITH(parse_interface_address(text),
                      Catch::Contains("is not the address of one interface"));
  }
  CHECK(parse_interface_address("fd00::1").host() == "fd00::1");
  CHECK(parse_interface_address("10.0.0.1").port() == 0);
  CHECK_THROWS_WITH(parse_data_endpoint("10.0.0.1"),
                    Catch::Contains("\"10.0.0.1\" is no data endpoint"));
}

TEST_CASE("no two parts of a group's shared memory overlap, at any number of ranks", "[comm]") {
  for (const int size : {1, 2, 3, 8, 17, 64, 200}) {
    const ShmLayout layout(size);
    CAPTURE(size);
    // Addresses only; nothing is read or written there.
    alignas(4096) static std::byte origin[1];
    std::byte* const base = origin;
    std::vector<std::pair<const std::byte*, size_t>> parts;
    const auto add = [&](const void* at, size_t bytes) {
      parts.emplace_back(static_cast<const std::byte*>(at), bytes);
    };
    add(&layout.header(base), sizeof(Header));
    for (int rank = 0; rank < size; ++rank) {
      add(&layout.slot(base, rank), sizeof(Slot));
      for (int to = 0; to < size; ++to) add(&layout.mailbox(base, rank, to), sizeof(Mailbox));
      for (const int64_t chunk : {0, 1}) add(layout.stage(base, rank, chunk), layout.chunk_bytes);
      CHECK(layout.stage(base, rank, 2) == layout.stage(base, rank, 0));  // two in turn
    }
    std::sort(parts.begin(), parts.end());
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      REQUIRE(parts[i].first + parts[i].second <= parts[i + 1].first);
    }
    CHECK(parts.back().first + parts.back().second <= base + layout.bytes);
    CHECK(layout.chunk_bytes % 4096 == 0);
    CHECK(layout.chunk_bytes >= size_t{32} << 10);
    CHECK(layout.chunk_bytes <= size_t{256} << 10);
  }
  // Staging stays within what containers get by default, for the groups of one host.
  CHECK(ShmLayout(64).bytes < size_t{64} << 20);
}

using namespace std::chrono_literals;

TEST_CASE("a connection is in trouble only after the whole of its patience, and names its peer",
          "[comm]") {
  const LinkPulse::TimePoint start{};
  LinkPulse pulse;
  const TcpHealth stuck{.in_flight = true, .acknowledged = 100, .heard = 7};
  pulse.sample(start, stuck);
  for (auto passed = 1s; passed < LinkPulse::kSilence; passed += 1s) {
    pulse.sample(start + passed, stuck);
    CHECK_FALSE(pulse.trouble(start + passed, 3));
  }
  pulse.sample(start + 60s, stuck);
  const std::optional<LinkTrouble> trouble = pulse.trouble(start + 60s, 3);
  REQUIRE(trouble);
  CHECK(trouble->peer == 3);
  CHECK_FALSE(trouble->heard);
  // One byte that is acknowledged ends it, and the patience begins anew.
  pulse.sample(start + 61s, {.in_flight = true, .acknowledged = 101, .heard = 8});
  CHECK_FALSE(pulse.trouble(start + 61s, 3));
  pulse.sample(start + 62s, {.in_flight = true, .acknowledged = 101, .heard = 8});
  CHECK_FALSE(pulse.trouble(start + 62s, 3));
  // Nothing under way is no trouble, however long it lasts.
  pulse.sample(start + 63s, {.in_flight = false, .acknowledged = 101, .heard = 8});
  CHECK_FALSE(pulse.trouble(start + 600s, 3));
}

}  // namespace
}  // namespace ds::detail
