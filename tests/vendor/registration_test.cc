// Buffers and windows that a program registers reach the vendor's library, however early they were registered.
#include <catch2/catch.hpp>
#include <utility>

#include "vendor_world.h"

using namespace api_test;
using namespace vendor_test;

namespace {

const Variables kForced{{"SCCL_VENDOR", FAULTY_VENDOR}, {"SCCL_ALGO", "vendor"}};

}  // namespace

TEST_CASE("a registered buffer is known to the vendor's library from its next call until the buffer is deregistered") {
  const Environment environment(kForced);
  CHECK(failures(run_world(Mode::threads, 2, [](int, ncclComm_t comm) -> std::string {
          std::vector<float> before(1000);
          std::vector<float> after(1000);
          std::pair<void*, void*> handles;
          if (ncclCommRegister(comm, before.data(), 4000, &handles.first) != ncclSuccess) return "register";
          if (vendors_that_know(before.data()) != 0) return "known before there is a communicator";
          if (const std::string wrong = sums(comm, 2); !wrong.empty()) return wrong;
          if (vendors_that_know(before.data()) != 1) return "a buffer that was registered before is not known";
          if (ncclCommRegister(comm, after.data(), 4000, &handles.second) != ncclSuccess) return "register again";
          if (const std::string wrong = sums(comm, 2); !wrong.empty()) return wrong;
          if (vendors_that_know(after.data()) != 1) return "a buffer that was registered later is not known";
          for (void* const handle : {handles.first, handles.second})
            if (ncclCommDeregister(comm, handle) != ncclSuccess) return describe("deregister", ncclInternalError);
          if (vendors_that_know(before.data()) + vendors_that_know(after.data()) != 0) return "still known";
          if (ncclCommDeregister(comm, handles.first) == ncclSuccess) return "deregistered twice";
          return sums(comm, 2);
        })) == "");
}

TEST_CASE("a buffer that is deregistered before the vendor's library serves is never known to it") {
  const Environment environment(kForced);
  CHECK(failures(run_world(Mode::threads, 2, [](int, ncclComm_t comm) -> std::string {
          std::vector<float> buffer(1000);
          void* handle = nullptr;
          if (ncclCommRegister(comm, buffer.data(), 4000, &handle) != ncclSuccess) return "register";
          if (ncclCommDeregister(comm, handle) != ncclSuccess) return "deregister";
          if (const std::string wrong = sums(comm, 2); !wrong.empty()) return wrong;
          return vendors_that_know(buffer.data()) == 0 ? "" : "known";
        })) == "");
}

TEST_CASE("a registration that fails in the vendor's library costs no call") {
  const Environment environment(
      Variables{{"SCCL_VENDOR", FAULTY_VENDOR}, {"SCCL_ALGO", "vendor"}, {"FAULTY_VENDOR", "CommRegister:fail"}});
  CHECK(failures(run_world(Mode::threads, 2, [](int, ncclComm_t comm) -> std::string {
          std::vector<float> buffer(1000);
          void* handle = nullptr;
          if (ncclCommRegister(comm, buffer.data(), 4000, &handle) != ncclSuccess) return "register";
          for (int repeat = 0; repeat < 2; ++repeat)
            if (const std::string wrong = sums(comm, 2); !wrong.empty()) return wrong;
          return ncclCommDeregister(comm, handle) == ncclSuccess ? "" : describe("deregister", ncclInternalError);
        })) == "");
  CHECK(served_calls() == 4);
}

TEST_CASE("a buffer may be deregistered after its communicator was aborted, with the vendor's") {
  const Environment environment(kForced);
  CHECK(failures(run_bare_world(Mode::threads, 2, [](int rank, const ncclUniqueId& id) -> std::string {
          ncclComm_t comm = nullptr;
          if (ncclCommInitRank(&comm, 2, id, rank) != ncclSuccess) return "init";
          std::vector<float> buffer(1000);
          void* handle = nullptr;
          if (ncclCommRegister(comm, buffer.data(), 4000, &handle) != ncclSuccess) return "register";
          if (const std::string wrong = sums(comm, 2); !wrong.empty()) return wrong;
          if (ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT) != ncclSuccess) return "revoke";
          if (ncclCommDeregister(comm, handle) != ncclSuccess) return describe("deregister", ncclInternalError);
          return ncclCommDestroy(comm) == ncclSuccess ? "" : "destroy";
        })) == "");
}
