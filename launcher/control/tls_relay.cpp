#include "launcher/control/tls_relay.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>

#include "core/error.h"
#include "core/secrecy.h"
#include "launcher/process/credentials.h"
#include "launcher/process/process.h"

namespace ds {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::string_view kIdentity = "dslaunch";
constexpr size_t kChunk = 16384;

struct FreeContext {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
struct FreeSsl {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};

// The secret as OpenSSL wants it: a session that was never negotiated.
SSL_SESSION* session_of(SSL* ssl) {
  const auto* const secret = static_cast<const std::string*>(SSL_get_app_data(ssl));
  constexpr std::array<unsigned char, 2> kAes256Sha384{0x13, 0x02};
  const SSL_CIPHER* const cipher = SSL_CIPHER_find(ssl, kAes256Sha384.data());
  SSL_SESSION* const session = SSL_SESSION_new();
  if (session && cipher &&
      SSL_SESSION_set1_master_key(session, reinterpret_cast<const unsigned char*>(secret->data()),
                                  secret->size()) == 1 &&
      SSL_SESSION_set_cipher(session, cipher) == 1 &&
      SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1) {
    return session;
  }
  SSL_SESSION_free(session);
  return nullptr;
}

int find_session(SSL* ssl, const unsigned char* identity, size_t size, SSL_SESSION** out) {
  const std::string_view name(reinterpret_cast<const char*>(identity), size);
  *out = name == kIdentity ? session_of(ssl) : nullptr;
  return 1;  // without a session the handshake fails: there is no certificate
}

int use_session(SSL* ssl, const EVP_MD* digest, const unsigned char** identity, size_t* size,
                SSL_SESSION** out) {
  static_cast<void>(digest);
  *identity = reinterpret_cast<const unsigned char*>(kIdentity.data());
  *size = kIdentity.size();
  *out = session_of(ssl);
  return *out ? 1 : 0;
}

// What goes through one relay, on its thread alone.
class Stream {
 public:
  Stream(TlsRelay::Role role, int connection, std::string secret, Fd from, Fd to)
      : secret_(std::move(secret)),
        connection_(connection),
        from_(std::move(from)),
        to_(std::move(to)),
        context_(SSL_CTX_new(TLS_method())) {
    DS_CHECK(context_ != nullptr, "relay: OpenSSL gives no context");
    SSL_CTX_set_min_proto_version(context_.get(), TLS1_3_VERSION);
    SSL_CTX_set_ciphersuites(context_.get(), "TLS_AES_256_GCM_SHA384");
    SSL_CTX_set_num_tickets(context_.get(), 0);
    SSL_CTX_set_options(context_.get(), SSL_OP_CLEANSE_PLAINTEXT);
    if (role == TlsRelay::Role::kClient) {
      SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER,
                         nullptr);  // no certificate is good enough
    }
    SSL_CTX_set_psk_find_session_callback(context_.get(), find_session);
    SSL_CTX_set_psk_use_session_callback(context_.get(), use_session);
    SSL_CTX_set_mode(context_.get(),
                     SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    ssl_.reset(SSL_new(context_.get()));
    DS_CHECK(ssl_ != nullptr && SSL_set_fd(ssl_.get(), connection_) == 1,
             "relay: OpenSSL takes no connection");
    SSL_set_app_data(ssl_.get(), &secret_);
    // The server's door knows us by it from strangers.
    if (role == TlsRelay::Role::kClient)
      SSL_set_tlsext_host_name(ssl_.get(), server_name_for(secret_).c_str());
    role == TlsRelay::Role::kServer ? SSL_set_accept_state(ssl_.get())
                                    : SSL_set_connect_state(ssl_.get());
    for (const int fd : {connection_, from_.get(), to_.get()}) {
      fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    }
  }
  Stream(const Stream&) = delete;  // OpenSSL knows where the secret is
  Stream& operator=(const Stream&) = delete;
  ~Stream() {
    for (std::string* const secret : {&secret_, &outgoing_, &incoming_}) wipe(*secret);
  }

  bool shake_hands(Clock::time_point deadline) {
    for (;;) {
      ERR_clear_error();
      const int done = SSL_do_handshake(ssl_.get());
      if (done == 1) {
        wipe(secret_);
        return SSL_session_reused(ssl_.get()) == 1;  // by the secret, and by nothing else
      }
      const short wanted = wanted_after(done);
      const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
      pollfd watched{connection_, wanted, 0};
      if (wanted == 0 || left.count() <= 0 ||
          poll(&watched, 1, static_cast<int>(left.count())) == 0) {
        return false;
      }
    }
  }

  void carry() {
    bool remote_open = true;
    while (remote_open && (to_.valid() || from_.valid() || !outgoing_.empty())) {
      wait();
      take_local();
      remote_open = give_remote() && take_remote();
      give_local();
    }
    // What came last still has to be taken, by a reader that is there.
    while (to_.valid() && !incoming_.empty()) {
      pollfd watched{to_.get(), POLLOUT, 0};
      poll(&watched, 1, -1);
      give_local();
    }
  }

 private:
  short wanted_after(int result) const {
    switch (SSL_get_error(ssl_.get(), result)) {
      case SSL_ERROR_WANT_READ:
        return POLLIN;
      case SSL_ERROR_WANT_WRITE:
        return POLLOUT;
      default:
        return 0;
    }
  }

  void wait() {
    const bool sends = !outgoing_.empty();
    const short remote =
        static_cast<short>((incoming_.empty() ? POLLIN : 0) | (sends ? POLLOUT : 0));
    std::array<pollfd, 3> watched{{{remote == 0 ? -1 : connection_, remote, 0},
                                   {sends ? -1 : from_.get(), POLLIN, 0},
                                   {incoming_.empty() ? -1 : to_.get(), POLLOUT, 0}}};
    poll(watched.data(), watched.size(), -1);
  }

  void take_local() {
    if (!from_.valid() || !outgoing_.empty()) return;
    std::array<char, kChunk> bytes{};
    const ssize_t got = read(from_.get(), bytes.data(), bytes.size());
    if (got > 0) append_secret(outgoing_, {bytes.data(), static_cast<size_t>(got)});
    wipe(bytes);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
      from_ = Fd();
      SSL_shutdown(ssl_.get());  // says that nothing more comes; the other direction stays
      shutdown(connection_, SHUT_WR);
    }
  }

  bool give_remote() {
    while (!outgoing_.empty()) {
      ERR_clear_error();
      const int sent = SSL_write(ssl_.get(), outgoing_.data(), static_cast<int>(outgoing_.size()));
      if (sent <= 0) return wanted_after(sent) != 0;
      drop_front(outgoing_, static_cast<size_t>(sent));
    }
    return true;
  }

  // False at the end of what comes.
  bool take_remote() {
    std::array<char, kChunk> bytes{};
    while (incoming_.size() < kChunk) {
      ERR_clear_error();
      const int got = SSL_read(ssl_.get(), bytes.data(), static_cast<int>(bytes.size()));
      if (got <= 0) return wanted_after(got) != 0;
      if (to_.valid()) append_secret(incoming_, {bytes.data(), static_cast<size_t>(got)});
      wipe(bytes);
    }
    return true;
  }

  void give_local() {
    while (to_.valid() && !incoming_.empty()) {
      const ssize_t wrote = write(to_.get(), incoming_.data(), incoming_.size());
      if (wrote > 0) {
        drop_front(incoming_, static_cast<size_t>(wrote));
      } else if (errno == EAGAIN) {
        return;
      } else if (errno != EINTR) {
        to_ = Fd();  // nobody reads any more
        wipe(incoming_);
      }
    }
  }

  std::string secret_;
  const int connection_;
  Fd from_;
  Fd to_;
  std::string outgoing_;
  std::string incoming_;
  std::unique_ptr<SSL_CTX, FreeContext> context_;
  std::unique_ptr<SSL, FreeSsl> ssl_;
};

}  // namespace

TlsRelay::TlsRelay(Role role, Fd connection, const std::string& secret, milliseconds patience)
    : connection_(std::move(connection)) {
  DS_CHECK(secret.size() == kRelaySecretBytes, "relay: a secret of {} bytes", secret.size());
  PipeEnds incoming = make_pipe();
  PipeEnds outgoing = make_pipe();
  input_ = std::move(incoming.read);
  output_ = std::move(outgoing.write);
  const int on = 1;
  setsockopt(connection_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  const auto deadline = Clock::now() + patience;
  auto stream = std::make_unique<Stream>(role, connection_.get(), secret, std::move(outgoing.read),
                                         std::move(incoming.write));
  // Signals are for those who wait for them.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([stream = std::move(stream), deadline, fd = connection_.get()] {
    if (stream->shake_hands(deadline)) stream->carry();
    shutdown(fd, SHUT_RDWR);
  });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TlsRelay::~TlsRelay() {
  input_ = Fd();
  output_ = Fd();
  shutdown(connection_.get(), SHUT_RDWR);
  if (thread_.joinable()) thread_.join();
}

}  // namespace ds
