#include "launcher/control/job_authority.h"

#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include "core/status/error.h"
#include "core/text/secrecy.h"
#include "launcher/process/credentials.h"

namespace ds {
namespace {

template <auto free_function>
struct Freeing {
  template <class T>
  void operator()(T* object) const {
    free_function(object);
  }
};
using Key = std::unique_ptr<EVP_PKEY, Freeing<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Freeing<X509_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Freeing<X509_EXTENSION_free>>;
using Buffer = std::unique_ptr<BIO, Freeing<BIO_free_all>>;

constexpr size_t kJobBytes = 16;
constexpr std::chrono::hours kClockTolerance{24};

void require(bool done, const char* what) {
  if (!done) {
    const unsigned long code = ERR_get_error();
    const char* const reason = ERR_reason_error_string(code);
    throw InternalError(fmt::format("certificates: libcrypto failed to {}: {}", what,
                                    reason == nullptr ? "no reason given" : reason));
  }
}

Key make_key() {
  Key key(EVP_EC_gen("P-256"));
  require(key != nullptr, "make a key");
  return key;
}

std::string text_of(BIO* buffer) {
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(buffer, &bytes);
  return {bytes, static_cast<size_t>(size)};
}

std::string to_pem(X509* certificate) {
  const Buffer buffer(BIO_new(BIO_s_mem()));
  require(buffer && PEM_write_bio_X509(buffer.get(), certificate) == 1, "write a certificate");
  return text_of(buffer.get());
}

std::string to_pem(EVP_PKEY* key) {
  const Buffer buffer(BIO_new(BIO_s_secmem()));  // wiped when freed
  require(buffer && PEM_write_bio_PrivateKey(buffer.get(), key, nullptr, nullptr, 0, nullptr,
                                             nullptr) == 1,
          "write a key");
  return text_of(buffer.get());
}

struct Period {
  std::time_t begin = 0;
  std::time_t end = 0;
};

// A certificate for `key` without issuer, extensions and signature.
Certificate draft(EVP_PKEY* key, const std::string& name, const Period& period) {
  Certificate certificate(X509_new());
  std::string serial = random_bytes(16);
  serial[0] = static_cast<char>((serial[0] & 0x3f) | 0x40);  // positive and of full length
  using Number = std::unique_ptr<BIGNUM, Freeing<BN_free>>;
  const Number number(BN_bin2bn(reinterpret_cast<const unsigned char*>(serial.data()),
                                static_cast<int>(serial.size()), nullptr));
  X509* const x = certificate.get();
  const auto* const text = reinterpret_cast<const unsigned char*>(name.c_str());
  require(x != nullptr && number != nullptr && X509_set_version(x, X509_VERSION_3) == 1 &&
              BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(x)) != nullptr &&
              ASN1_TIME_set(X509_getm_notBefore(x), period.begin) != nullptr &&
              ASN1_TIME_set(X509_getm_notAfter(x), period.end) != nullptr &&
              X509_set_pubkey(x, key) == 1 &&
              X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC, text, -1, -1,
                                         0) == 1,
          "fill in a certificate");
  return certificate;
}

void extend(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const Extension extension(X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  require(extension && X509_add_ext(certificate, extension.get(), -1) == 1,
          "add an extension to a certificate");
}

void sign(X509* certificate, X509* issuer, EVP_PKEY* issuer_key) {
  require(X509_set_issuer_name(certificate, X509_get_subject_name(issuer)) == 1 &&
              X509_sign(certificate, issuer_key, EVP_sha256()) > 0,
          "sign a certificate");
}

}  // namespace

struct JobAuthority::Keys {
  Key key;
  Certificate certificate;
  Period period;

  TlsIdentity certify(const std::string& name, const char* usage,
                      const std::string& alternative_name) const {
    const Key leaf_key = make_key();
    const Certificate leaf = draft(leaf_key.get(), name, period);
    X509* const x = leaf.get();
    X509* const issuer = certificate.get();
    extend(x, issuer, NID_basic_constraints, "critical,CA:FALSE");
    extend(x, issuer, NID_key_usage, "critical,digitalSignature");
    // A rank's certificate does not make a coordinator, nor the other way round.
    extend(x, issuer, NID_ext_key_usage, usage);
    extend(x, issuer, NID_subject_alt_name, alternative_name);
    extend(x, issuer, NID_authority_key_identifier, "keyid");
    sign(x, issuer, key.get());
    TlsIdentity identity;
    identity.certificate = to_pem(x);
    identity.private_key = to_pem(leaf_key.get());
    return identity;
  }
};

TlsIdentity::~TlsIdentity() { wipe(private_key); }

std::string rank_uri(const std::string& job, int64_t epoch, int rank) {
  return fmt::format("dslaunch:{}/epoch/{}/rank/{}", job, epoch, rank);
}

JobAuthority::JobAuthority(WallClock::time_point now, std::chrono::seconds job_limit)
    : job_(to_hex(random_bytes(kJobBytes))), keys_(std::make_unique<Keys>()) {
  keys_->key = make_key();
  keys_->period = {WallClock::to_time_t(now - kClockTolerance),
                   WallClock::to_time_t(now + job_limit + kClockTolerance)};
  keys_->certificate = draft(keys_->key.get(), "dslaunch job " + job_, keys_->period);
  X509* const x = keys_->certificate.get();
  extend(x, x, NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
  extend(x, x, NID_key_usage, "critical,keyCertSign");
  extend(x, x, NID_subject_key_identifier, "hash");
  sign(x, x, keys_->key.get());
  certificate_ = to_pem(x);
}

JobAuthority::~JobAuthority() = default;

std::shared_ptr<const JobAuthority> make_job_authority(
    std::optional<std::chrono::nanoseconds> longest_life) {
  return std::make_shared<const JobAuthority>(
      JobAuthority::WallClock::now(),
      std::chrono::ceil<std::chrono::seconds>(longest_life.value_or(JobAuthority::kNoLimit)));
}

TlsIdentity JobAuthority::certify_coordinator(const std::vector<std::string>& addresses,
                                              const std::string& name) const {
  std::string names = name.empty() ? "" : "DNS:" + name;
  for (const std::string& address : addresses) {
    names += (names.empty() ? "IP:" : ",IP:") + address;
  }
  return keys_->certify("dslaunch coordinator", "serverAuth", names);
}

TlsIdentity JobAuthority::certify_rank(int64_t epoch, int rank) const {
  return keys_->certify(fmt::format("dslaunch rank {}", rank), "clientAuth",
                        "URI:" + rank_uri(job_, epoch, rank));
}

}  // namespace ds
