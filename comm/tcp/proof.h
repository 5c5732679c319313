// What the two ends of a data connection prove their knowledge of the epoch's secret with:
// HMAC-SHA256 and random challenges. The only user of OpenSSL in comm/.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace ds::detail {

using ProofBytes = std::array<std::byte, 32>;

// Returns the HMAC-SHA256 of the concatenation of the parts, whose lengths must be fixed by the
// protocol.
ProofBytes prove(std::string_view secret, std::initializer_list<std::span<const std::byte>> parts);
// Takes the same time wherever the first difference is.
bool equal_proofs(const ProofBytes& a, const ProofBytes& b);
// From the kernel's generator. Throws CommError if it fails.
ProofBytes random_challenge();

}  // namespace ds::detail
