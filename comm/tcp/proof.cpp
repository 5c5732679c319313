#include "comm/tcp/proof.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <vector>

#include "core/status/error.h"
#include "core/text/secrecy.h"
#include "core/values/index.h"

namespace ds::detail {

ProofBytes prove(std::string_view secret, std::initializer_list<std::span<const std::byte>> parts) {
  std::vector<std::byte> message;
  for (const auto& part : parts) message.insert(message.end(), part.begin(), part.end());
  ProofBytes proof{};
  unsigned int length = 0;
  const unsigned char* const done =
      HMAC(EVP_sha256(), secret.data(), narrow<int>(secret.size()),
           reinterpret_cast<const unsigned char*>(message.data()), message.size(),
           reinterpret_cast<unsigned char*>(proof.data()), &length);
  if (done == nullptr || length != proof.size()) {
    throw CommError("data connection: libcrypto computes no HMAC-SHA256");
  }
  return proof;
}

bool equal_proofs(const ProofBytes& a, const ProofBytes& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

ProofBytes random_challenge() {
  ProofBytes bytes{};
  fill_random(std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

}  // namespace ds::detail
