#include "launcher/process/addresses.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <memory>
#include <thread>

#include "core/files/file.h"
#include "core/status/error.h"
#include "core/text/socket_address.h"
#include "core/values/index.h"

namespace ds {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// Some port has to stand there; nothing is sent.
constexpr int kAnyPort = 9;

SocketAddress literal_address(const std::string& literal) {
  if (const std::optional<SocketAddress> parsed = parse_address(literal, kAnyPort)) return *parsed;
  throw CommError(fmt::format("'{}' is no literal address", literal));
}

// One question to the resolver. It writes into this, so it stays where it is until answered.
struct Question {
  std::string name;
  addrinfo hints{};
  gaicb request{};
};

ResolvedHost answer_of(Question& question, std::chrono::milliseconds limit) {
  int error = gai_error(&question.request);
  if (error == EAI_INPROGRESS) {
    gai_cancel(&question.request);
    return {"", fmt::format("its name was not resolved within {} ms", limit.count())};
  }
  const AddressList list(question.request.ar_result, &freeaddrinfo);
  if (error != 0 || list == nullptr) {
    return {"", fmt::format("its name cannot be resolved: {}", gai_strerror(error))};
  }
  return {address_from(list->ai_addr, list->ai_addrlen).host(), ""};
}

}  // namespace

std::vector<ResolvedHost> resolve_hosts(const std::vector<std::string>& names,
                                        std::chrono::milliseconds limit) {
  // Not given back while a question is open: the resolver's threads may still write into it.
  auto* const questions = new std::deque<Question>(names.size());
  std::vector<gaicb*> requests;
  for (size_t i = 0; i < names.size(); ++i) {
    Question& question = (*questions)[i];
    question.name = names[i].substr(names[i].find('@') + 1);
    question.hints.ai_socktype = SOCK_STREAM;
    question.hints.ai_flags = AI_ADDRCONFIG;
    question.request.ar_name = question.name.c_str();
    question.request.ar_request = &question.hints;
    requests.push_back(&question.request);
  }
  const auto is_open = [](gaicb* request) { return gai_error(request) == EAI_INPROGRESS; };
  const bool asked =
      getaddrinfo_a(GAI_NOWAIT, requests.data(), narrow<int>(requests.size()), nullptr) == 0;
  const auto deadline = std::chrono::steady_clock::now() + limit;
  // Not by gai_suspend(): where an answer comes just when it returns, glibc 2.36 goes on to write
  // into its stack.
  while (asked && std::ranges::any_of(requests, is_open) &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  std::vector<ResolvedHost> out;
  bool all_answered = true;
  for (Question& question : *questions) {
    all_answered = all_answered && gai_error(&question.request) != EAI_INPROGRESS;
    out.push_back(answer_of(question, limit));
  }
  if (all_answered) delete questions;
  return out;
}

std::string local_address_towards(const std::string& literal) {
  const SocketAddress target = literal_address(literal);
  const Fd socket(::socket(target.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  // Connecting a datagram socket chooses a route and an address, and sends nothing.
  if (!socket.valid() || connect(socket.get(), target.get(), target.bytes) != 0) {
    throw CommError(fmt::format("no route to {}: {}", literal, std::strerror(errno)));
  }
  return own_address(socket.get()).host();
}

bool is_loopback_address(const std::string& literal) {
  return literal_address(literal).is_loopback();
}

std::vector<NetworkAddress> network_addresses() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) {
    throw IoError(
        fmt::format("asking for the addresses of this machine: {}", std::strerror(errno)));
  }
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, &freeifaddrs);
  std::vector<NetworkAddress> addresses;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const SocketAddress address = address_from(
        entry->ifa_addr, family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    if (!address.is_link_local())
      addresses.push_back({entry->ifa_name, address.host(), address.is_loopback()});
  }
  return addresses;
}

std::vector<std::string> reachable_addresses() {
  std::vector<std::string> addresses;
  for (const NetworkAddress& entry : network_addresses()) {
    if (!entry.is_loopback) addresses.push_back(entry.address);
  }
  if (addresses.empty()) addresses.emplace_back("127.0.0.1");
  return addresses;
}

}  // namespace ds
