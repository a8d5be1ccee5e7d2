/* Stands where vivarium-wasm stands, and is what that never is: native code that does as it is told. It is what
 * is left of the engine's program once somebody has got out of the engine, so that tests try the walls around it.
 *
 *   engine inspect --cache DIR    as vivarium-wasm answers, with a component of four bytes
 *   engine kernel …               the kernel's side of agent/src/kernel/wire.rs; what comes as code is one attempt
 *   engine template VERSION       built with FORKS, as a dynamic program: forks such kernels, by the agent's library
 *                                 beside it
 *
 * An attempt is answered by `works`, or by the name of the error. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char answer[4096];
static char **arguments;

static void put(const char *from, uint32_t length) {
    while (length > 0) {
        ssize_t written = write(3, from, length);
        if (written <= 0) exit(3);
        from += written;
        length -= (uint32_t)written;
    }
}

static void get(char *to, uint32_t length) {
    while (length > 0) {
        ssize_t received = read(3, to, length);
        if (received <= 0) exit(0);
        to += received;
        length -= (uint32_t)received;
    }
}

static void send_frame(char kind, const char *payload, uint32_t length) {
    uint32_t all = length + 1;
    put((char *)&all, 4);
    put(&kind, 1);
    put(payload, length);
}

/* What a call that returned this came to. */
static const char *came_to(long result) { return result >= 0 ? "works" : strerrorname_np(errno); }

static const char *opened(const char *path, int flags) {
    int file = open(path, flags | O_CLOEXEC, 0600);
    const char *word = came_to(file);
    if (file >= 0) close(file);
    return word;
}

/* A child ends at once, whichever call made it. */
static const char *forked(long child) {
    if (child == 0) syscall(SYS_exit_group, 0);
    const char *word = came_to(child);
    if (child > 0) waitpid((pid_t)child, NULL, 0);
    return word;
}

static const char *attempt(char *what) {
    char *with = strchr(what, ' ');
    if (with) *with++ = 0;
#define IS(name) (strcmp(what, name) == 0)
    if (IS("arguments")) {
        answer[0] = 0;
        for (char **one = arguments + 1; *one; one++) {
            strcat(answer, *one);
            if (one[1]) strcat(answer, " ");
        }
        return answer;
    }
    if (IS("component")) {
        char bytes[8] = {0};
        ssize_t length = pread(4, bytes, sizeof bytes - 1, 0);
        snprintf(answer, sizeof answer, "%s", length < 0 ? strerrorname_np(errno) : bytes);
        return answer;
    }
    if (IS("change_component")) return came_to(pwrite(4, "evil", 4, 0));
    if (IS("reopen_component")) {
        int file = open("/proc/self/fd/4", O_RDWR | O_CLOEXEC);
        const char *word = file < 0 ? strerrorname_np(errno) : came_to(pwrite(file, "evil", 4, 0));
        if (file >= 0) close(file);
        return word;
    }
    if (IS("read")) return opened(with, O_RDONLY);
    if (IS("list")) return opened(with, O_RDONLY | O_DIRECTORY);
    if (IS("write")) return opened(with, O_WRONLY | O_CREAT);
    if (IS("exec")) {
        char *argv[] = {with, NULL};
        long child = vfork();
        if (child == 0) {
            execve(with, argv, argv + 1);
            _exit(errno);
        }
        if (child < 0) { /* not even a child: try it in this process */
            return came_to(execve(with, argv, argv + 1));
        }
        int status = 0;
        waitpid((pid_t)child, &status, 0);
        if (WEXITSTATUS(status) == 0) return "works";
        return strerrorname_np(WEXITSTATUS(status));
    }
    if (IS("exec_descriptor")) {
        int file = open("/proc/self/exe", O_PATH | O_CLOEXEC);
        if (file < 0) file = open(arguments[0], O_PATH | O_CLOEXEC);
        char *argv[] = {"x", "exit", NULL};
        return file < 0 ? "nothing" : came_to(syscall(SYS_execveat, file, "", argv, argv + 2, AT_EMPTY_PATH));
    }
    /* The one descriptor from which the filter lets a program be executed. */
    if (IS("exec_start")) {
        char *argv[] = {"x", "exit", NULL};
        return came_to(syscall(SYS_execveat, 1000, "", argv, argv + 2, AT_EMPTY_PATH));
    }
    /* Of an absolute path that call ignores the descriptor. */
    if (IS("exec_absolute")) {
        char here[2048] = "", path[4096];
        if (with[0] != '/' && !getcwd(here, sizeof here)) return strerrorname_np(errno);
        snprintf(path, sizeof path, "%s%s%s", here, with[0] == '/' ? "" : "/", with);
        char *argv[] = {"x", "exit", NULL};
        return came_to(syscall(SYS_execveat, 1000, path, argv, argv + 2, AT_EMPTY_PATH));
    }
    /* As vivarium-wasm does first of all. */
    if (IS("forbid_exec")) {
        struct sock_filter code[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_execveat, 0, 1),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = {4, code};
        return came_to(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
    }
    if (IS("copy_self")) {
        char part[4096];
        int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
        if (from < 0) from = open(arguments[0], O_RDONLY | O_CLOEXEC);
        int to = open(with, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
        ssize_t length;
        while ((length = read(from, part, sizeof part)) > 0)
            if (write(to, part, (size_t)length) != length) length = -1;
        const char *word = came_to(length);
        close(from);
        close(to);
        return word;
    }
    if (IS("take_start")) {
        int file = open(arguments[0], O_PATH | O_CLOEXEC);
        struct rlimit more = {4096, 4096};
        setrlimit(RLIMIT_NOFILE, &more);
        return file < 0 ? "nothing" : came_to(dup2(file, 1000));
    }
    if (IS("fork")) return forked(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
    if (IS("vfork")) return forked(vfork());
    /* Without memory in common there is no such thread: the kernel's own answer is EINVAL. */
    if (IS("thread")) return came_to(syscall(SYS_clone, CLONE_THREAD, 0, 0, 0, 0));
    if (IS("socket")) {
        int family = strcmp(with, "unix") == 0 ? AF_UNIX : strcmp(with, "inet") == 0 ? AF_INET : AF_NETLINK;
        return came_to(socket(family, family == AF_NETLINK ? SOCK_RAW : SOCK_STREAM, 0));
    }
    if (IS("socketpair")) {
        int pair[2];
        return came_to(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    }
    if (IS("kill")) return came_to(kill(atoi(with), 0));
    if (IS("tgkill")) return came_to(syscall(SYS_tgkill, getpid(), getpid(), 0));
    /* To have a descriptor signal whomever. */
    if (IS("own")) {
        int ends[2] = {3, 3};
        if (strcmp(with, "pipe") == 0 && pipe(ends) < 0) return "nothing";
        return came_to(fcntl(ends[0], F_SETOWN, getpid()));
    }
    if (IS("choose_signal")) return came_to(fcntl(3, F_SETSIG, 0));
    return "unknown";
#undef IS
}

static void kernel(void) {
    static char frame[1 << 20];
    send_frame(1, "", 0); /* READY */
    for (;;) {
        uint32_t length;
        get((char *)&length, 4);
        if (length == 0 || length >= sizeof frame) exit(4);
        get(frame, length);
        frame[length] = 0;
        if (frame[0] != 1) continue; /* all but EXECUTE */
        uint64_t execution;
        memcpy(&execution, frame + 1, 8);
        char *at = frame + 1 + 8 + 16; /* behind the bounds of a repr and the descriptors */
        uint32_t size, variables;
        for (int text = 0; text < 2; text++) { /* file name, working directory */
            memcpy(&size, at, 4);
            at += 4 + size;
        }
        memcpy(&variables, at, 4);
        at += 4;
        for (uint32_t text = 0; text < 2 * variables + 1; text++) { /* and the policy */
            memcpy(&size, at, 4);
            at += 4 + size;
        }
        char *code = at + 4;
        send_frame(5, (char *)&execution, 8); /* STARTED */
        const char *word = attempt(code);
        char value[sizeof answer + 64];
        uint32_t of_word = (uint32_t)strlen(word), of_type = 4, none = 0, end = 0;
        memcpy(value, &execution, 8), end += 8;
        memcpy(value + end, &of_word, 4), end += 4;
        memcpy(value + end, word, of_word), end += of_word;
        memcpy(value + end, &of_type, 4), end += 4;
        memcpy(value + end, "word", 4), end += 4;
        memcpy(value + end, &none, 4), end += 4;
        send_frame(2, value, end); /* VALUE */
        char done[9] = {0};
        memcpy(done, &execution, 8);
        send_frame(4, done, 9); /* DONE: ok */
    }
}

#ifdef FORKS
/* As template.py does it. */
static void template(void) {
    char path[4096];
    snprintf(path, sizeof path, "%s", arguments[0]);
    strcpy(strrchr(path, '/'), "/libvivarium_agent.so");
    void *library = dlopen(path, RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    int (*serve)(void) = (int (*)(void))dlsym(library, "vivarium_template_serve");
    void (*was_forked)(int) = (void (*)(int))dlsym(library, "vivarium_template_forked");
    int (*begin_kernel)(void) = (int (*)(void))dlsym(library, "vivarium_template_begin_kernel");
    void (*become_kernel)(void) = (void (*)(void))dlsym(library, "vivarium_template_become_kernel");
    while (serve() == 1) {
        pid_t child = fork();
        if (child == 0) {
            begin_kernel();
            become_kernel();
            kernel();
        }
        was_forked(child < 0 ? -errno : child);
    }
}
#define LIBRARIES ", \"reads\": [\"/lib\", \"/lib64\", \"/usr/lib\", \"/usr/lib64\"]"
#else
#define LIBRARIES ""
#endif

int main(int count, char **argv) {
    arguments = argv;
    if (count == 4 && strcmp(argv[1], "inspect") == 0) {
        char path[4096];
        /* The state directory of `vivarium run` may not be there either. */
        snprintf(path, sizeof path, "%s", argv[3]);
        *strrchr(path, '/') = 0;
        mkdir(path, 0700);
        mkdir(argv[3], 0700);
        snprintf(path, sizeof path, "%s/component", argv[3]);
        int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (file < 0 || write(file, "code", 4) != 4) {
            perror(path);
            return 1;
        }
        printf("{\"engine\": \"probe\", \"engine_version\": \"1\", \"python\": \"3.14.0\", \"component\": \"%s\", "
               "\"enforced\": \"what a probe has\", \"missing\": \"\"" LIBRARIES,
               path);
        /* What runs commands, if it is installed too. */
        snprintf(path, sizeof path, "%s-runner", argv[0]);
        if (access(path, X_OK) == 0) printf(", \"runner\": \"%s\"", path);
        printf("}\n");
        return 0;
    }
    if (count > 1 && strcmp(argv[1], "run") == 0) {
        /* run DIRECTORY... -- FILE ATTEMPT */
        puts(attempt(argv[count - 1]));
        return 0;
    }
    if (count > 1 && strcmp(argv[1], "kernel") == 0) kernel();
#ifdef FORKS
    if (count == 3 && strcmp(argv[1], "template") == 0) template();
#endif
    return 0;
}
