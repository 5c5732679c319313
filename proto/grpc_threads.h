// How many threads gRPC starts in a process (pure, but for grpc_cores()), as counted with 1.51: it
// neither says when it cannot start one nor gets over it, so whoever uses it asks for them first.
// More of them come and go with the work; those are not counted.
#pragma once

namespace ds {

// The cores after which gRPC sizes its pools: all that the machine has, also those that we may not
// use.
int grpc_cores();
// For a process that calls others.
int grpc_threads_of_client(int cores);
// For one that answers in callbacks, too.
int grpc_threads_of_server(int cores);

}  // namespace ds
