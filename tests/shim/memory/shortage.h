// Makes allocations of this program fail, those of the library included: operator new is replaced (shortage.cc).
#pragma once

namespace sccl_test {

// While it lives, the allocation fails that comes after so many others. Whose: of the thread that made it, or of the
// whole process. One at a time in a thread or a process.
class Shortage {
 public:
  enum class Of { thread, process };
  enum class Lasts { one_allocation, until_the_end };

  explicit Shortage(long allocations, Of of = Of::thread, Lasts lasts = Lasts::one_allocation);
  ~Shortage();
  Shortage(const Shortage&) = delete;
  Shortage& operator=(const Shortage&) = delete;

  // Whether an allocation has failed.
  bool was_felt() const;

 private:
  Of of_;
};

}  // namespace sccl_test
