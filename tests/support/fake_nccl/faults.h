// What the stand-in of NCCL is told to do wrong. It crosses the edge of a library that is opened at
// run time: plain bytes.
#pragma once

namespace ds::fake_nccl {

struct Faults {
  int version = 22809;
  int rank = -1;          // whose communicators the rest is about; -1: everybody's
  int hangs_in_call = 0;  // the nth collective of a communicator does not end but by an abort
  int fails_in_call = 0;  // it reports an error later, and does not end but by an abort
  int refuses_call = 0;   // it is refused at once
  bool init_hangs = false;
  bool init_fails = false;  // while it is under way
  bool no_id = false;
};

// The library's function `fakeNcclPlay`: of the process, from now on.
using Play = void (*)(const Faults* faults);
// Its function `fakeNcclHanging`: collectives that are going on now and do not move.
using Hanging = int (*)();

}  // namespace ds::fake_nccl
