//! The program that holds a pod's namespaces. It does nothing else; containerd ends it with SIGKILL.

fn main() {
    loop {
        std::thread::park();
    }
}
