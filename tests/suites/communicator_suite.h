// The conformance suite of Communicator: every transport and decorator passes every case at every
// size. A case runs on all ranks of a fresh or used group and throws what it finds wrong; Catch's
// assertions are not thread-safe, so how a group is made and run is the including test's business.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "comm/contract/communicator.h"

namespace ds::test {

struct CommunicatorCase {
  const char* name;
  void (*body)(Communicator& comm);
};

// Leave the group usable: they may run one after the other on the same group.
std::span<const CommunicatorCase> communicator_cases();

// Mistakes of the caller that need no peer to be noticed; also for groups without data.
void check_caller_mistakes(Communicator& comm, Stream& stream);

// Ranks that disagree. Each needs a fresh group of at least two ranks; every rank must get a
// CommError whose text has `expected` in it. The group is broken afterwards.
struct DisagreementCase {
  const char* name;
  void (*body)(Communicator& comm, Stream& stream);  // rank 1 does something else than the others
  const char* expected;
};
std::span<const DisagreementCase> disagreement_cases();
void check_disagreement(Communicator& comm, const DisagreementCase& disagreement);

// A digest of what a fixed, seeded series of collectives gives on this rank: equal for every
// transport, path and chunk size. `memory` is where the tensors lie.
uint64_t result_digest(Communicator& comm, MemoryResource& memory);

}  // namespace ds::test
