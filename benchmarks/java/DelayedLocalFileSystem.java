import java.io.IOException;
import java.net.URI;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;

/** The local disk, each listing of which takes longer by a number of milliseconds. */
public class DelayedLocalFileSystem extends LocalFileSystem {
  private static final Queue<String> LISTED = new ConcurrentLinkedQueue<>();

  public DelayedLocalFileSystem() {
    super(new Delayed());
  }

  /** Listings so far of what lies below a directory of this name, by the whole process. */
  public static long listingsBelow(String directory) {
    return LISTED.stream().filter(path -> path.contains("/" + directory + "/")).count();
  }

  /** Below LocalFileSystem, where every way of listing comes down to one method. */
  private static final class Delayed extends RawLocalFileSystem {
    private long milliseconds;

    @Override
    public void initialize(URI uri, Configuration conf) throws IOException {
      super.initialize(uri, conf);
      milliseconds = conf.getLong("splitlib.listing.delay.milliseconds", 0);
    }

    @Override
    public FileStatus[] listStatus(Path path) throws IOException {
      LISTED.add(path.toString());
      try {
        Thread.sleep(milliseconds);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        throw new IOException(e);
      }
      return super.listStatus(path);
    }
  }
}
